import { type WorkOutcome } from '../../core/hold/hold.js';
import { type Iteration } from '../../core/reentry/iteration.js';

/** The lock of one run of a method whose result is consumed after the method has returned. */
export interface StreamLock {
  /** Aborted with a `LockLostError` when the lock is lost. */
  readonly signal: AbortSignal;
  /** Who consumes it, of an async iterable. */
  readonly iteration?: Iteration;
  /** Runs `work` as the holder, so that `currentLock()` works in it. */
  run<T>(work: () => T): T;
  /** Nobody wants the work any more: has the lock be lost after one more lease, if it is not given back by then. */
  limit?(): void;
  /** Gives the lock back; rejects with a `LockLostError` when it was lost. */
  end(outcome: WorkOutcome): Promise<void>;
}

/** Acquires the lock of one run; null when the call is to be skipped. An aborted `signal` ends the waiting. */
export type OpenLock = (signal: AbortSignal) => Promise<StreamLock | null>;

/** Gives the lock back where there is nobody left to tell of a loss, or where something else has to be told. */
export async function endQuietly(lock: StreamLock, outcome: WorkOutcome): Promise<void> {
  await lock.end(outcome).catch(() => undefined);
}
