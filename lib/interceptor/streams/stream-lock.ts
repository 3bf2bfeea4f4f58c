import { type Locker } from '../../core/acquire/locker.js';
import { type Hold, type WorkOutcome } from '../../core/hold/hold.js';
import { LockNotHeldError } from '../../core/lock.errors.js';
import { endWork } from '../../core/reentry/run.js';
import { runHolding, runUnlocked } from '../../core/reentry/context.js';
import { type UnlockedHandle } from '../../core/reentry/unlocked-run.js';
import { type ScheduledCall } from '../../core/timer-queue.js';

/** The lock of one run of a method whose result is consumed after the method has returned. */
export interface StreamLock {
  /** Aborted with a `LockLostError` when the lock is lost. */
  readonly signal: AbortSignal;
  /** Runs `work` as the holder, so that `currentLock()` works in it. */
  run<T>(work: () => T): T;
  /** Loses the lock after one more lease, unless it is released before that. */
  loseAfterLease?(): void;
  /** Releases the lock; rejects with a `LockLostError` when it was lost. */
  end(outcome: WorkOutcome): Promise<void>;
}

/** Acquires the lock of one run; resolves to null when the call is skipped. An aborted `signal` ends the waiting. */
export type OpenLock = (signal: AbortSignal) => Promise<StreamLock | null>;

/** Releases the lock and ignores its loss: no caller is left to notify, or the caller gets another error. */
export async function endQuietly(lock: StreamLock, outcome: WorkOutcome): Promise<void> {
  await lock.end(outcome).catch(() => undefined);
}

const LEFT = 'The iteration was ended while a value was pending, which took longer than one more lease.';

/**
 * The lock of a stream. Only the stream refers to it, so the lock of a dropped stream is released.
 * (No closure below may refer to `streamLock` itself, because timers keep them.)
 */
export function heldStreamLock(lock: Hold, { timers, clock, handles }: Locker, leaseMs: number): StreamLock {
  let deadline: ScheduledCall | undefined;
  const lose = (): void => {
    lock.lose('max-hold', new LockNotHeldError(LEFT, lock));
    // A lock nested in another hold may not be losable yet.
    if (!lock.lost && !lock.isEnded) deadline = timers.schedule(clock.now() + leaseMs, lose);
  };
  const streamLock: StreamLock = {
    get signal() {
      return lock.signal;
    },
    run: (work) => runHolding(lock, work),
    loseAfterLease: () => {
      deadline ??= timers.schedule(clock.now() + leaseMs, lose);
    },
    end: async (outcome) => {
      deadline?.cancel();
      const lost = await endWork(lock, outcome);
      if (lost) throw lost;
    },
  };
  return handles.track(streamLock, lock);
}

/** For `run-unlocked`: there is no lock to lose or to release. */
export const unlockedStreamLock = (run: UnlockedHandle): StreamLock => ({
  get signal() {
    return run.signal;
  },
  run: (work) => runUnlocked(run, work),
  end: async () => void (run.isEnded = true),
});
