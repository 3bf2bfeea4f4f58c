import { AsyncLocalStorage } from 'node:async_hooks';
import { getEventListeners } from 'node:events';
import { setImmediate } from 'node:timers/promises';
import { LockLostError } from '../../../../lib/core/lock.errors.js';
import { type OpenLock, type StreamLock } from '../../../../lib/interceptor/streams/stream-lock.js';

const holders = new AsyncLocalStorage<StreamLock>();

/** The result of `currentLock()`. */
export const holder = (): StreamLock | undefined => holders.getStore();

/** Records how it was released; rejects if it was lost. */
export class FakeLock implements StreamLock {
  readonly ends: string[] = [];
  /** How often it was limited to one more lease. */
  losing = 0;
  /** Whether the release finds that it was lost. */
  isLostAtEnd = false;

  constructor(private readonly controller = new AbortController()) {}

  get signal(): AbortSignal {
    return this.controller.signal;
  }

  get listeners(): number {
    return getEventListeners(this.signal, 'abort').length;
  }

  run<T>(work: () => T): T {
    return holders.run(this, work);
  }

  loseAfterLease(): void {
    this.losing += 1;
  }

  async end(outcome: 'done' | 'failed'): Promise<void> {
    this.ends.push(outcome);
    if (this.isLostAtEnd) this.lose();
    this.signal.throwIfAborted();
  }

  lose(): LockLostError {
    const error = new LockLostError('The lock was lost.', { reason: 'expired' });
    this.controller.abort(error);
    return error;
  }
}

/** Grants these locks one after the other, and counts; an `Error` is what acquiring rejects with. */
export function opening(...grants: (FakeLock | Error | null)[]): OpenLock & { opened: number } {
  const open = Object.assign(
    async (): Promise<StreamLock | null> => {
      const grant = grants[open.opened++];
      if (grant instanceof Error) throw grant;
      if (grant === undefined) throw new Error('It was opened more often than expected.');
      return grant;
    },
    { opened: 0 },
  );
  return open;
}

/** Acquiring that lasts until the test ends it, and rejects when its signal is aborted, like the real one. */
export class SlowOpening {
  signal: AbortSignal | undefined;
  grant: (lock: FakeLock | null) => void = () => {};

  constructor(private readonly heedsSignal = true) {}

  readonly open: OpenLock = (signal) => {
    this.signal = signal;
    return new Promise((resolve, reject) => {
      this.grant = resolve;
      if (this.heedsSignal) signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
    });
  };
}

/** Runs all pending tasks. */
export async function settled(): Promise<void> {
  for (let turn = 0; turn < 3; turn += 1) await setImmediate();
}
