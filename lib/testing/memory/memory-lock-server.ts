import { setImmediate } from 'node:timers';
import { type Clock, systemClock } from '../../core/clock.js';
import { type WakeUp, type WakeUpListener } from '../../core/store/lock-store.js';
import { LockStoreError } from '../../core/lock.errors.js';
import { clientOf } from './hand-over.js';
import { MemoryLocks } from './memory-locks.js';

/** For how long an unused lock is remembered. */
const KEEP_MS = 600_000;

/** As great as those of production, also by a clock that begins in 1970: a column that is too small fails in a test. */
const LEAST_TOKEN = 2 ** 50;

/** The options of `MemoryLockServer`. */
export interface MemoryLockServerOptions {
  /** @default the clock of the process */
  readonly clock?: Clock;
}

/**
 * Stands for a Redis, in memory: the apps of one process that are given the same one share their locks. It is as strict as
 * Redis about leases, queues, tokens and wake-ups, and can be taken away to see what an app does then.
 */
export class MemoryLockServer {
  readonly clock: Clock;
  /** Internal: what the stores ask. */
  readonly locks: MemoryLocks;
  readonly #listeners = new Map<string, WakeUpListener>();
  #isStopped = false;
  #lastMs = 0;
  #withinMs = 0;

  constructor({ clock = systemClock }: MemoryLockServerOptions = {}) {
    this.clock = clock;
    this.locks = new MemoryLocks(
      (attempt, wakeUp) => this.#tell(attempt, wakeUp),
      () => this.#micros(),
      KEEP_MS,
      LEAST_TOKEN,
    );
  }

  /** Takes it away: until `start`, commands fail with a `LockStoreError` and nobody hears of a release. Locks are kept. */
  stop(): void {
    this.#isStopped = true;
  }

  /** It is back, with all locks whose leases have not ended. */
  start(): void {
    if (!this.#isStopped) return;
    this.#isStopped = false;
    for (const listener of this.#listeners.values()) listener.onGap();
  }

  /** Carries out one command, unless it is taken away; internal. @throws LockStoreError */
  async run<T>(key: string, command: (locks: MemoryLocks) => T): Promise<T> {
    // As with a server, nothing happens in the turn of the caller, and others have theirs before the answer.
    await new Promise<void>((resolve) => void setImmediate(resolve));
    if (this.#isStopped) {
      throw new LockStoreError(`The lock "${key}" could not be asked for: the MemoryLockServer is stopped.`, { key });
    }
    this.locks.forgetUnused();
    return command(this.locks);
  }

  /** Has a store hear of what concerns its attempts, until the returned function is called; internal. */
  connect(clientId: string, listener: WakeUpListener): () => void {
    this.#listeners.set(clientId, listener);
    void Promise.resolve().then(() => this.#listeners.get(clientId)?.onListening());
    return () => this.#listeners.delete(clientId);
  }

  /** The clock has steps of a millisecond; within one, the microseconds of commands differ, as with a real server. */
  #micros(): number {
    const ms = Math.floor(this.clock.wallNow());
    this.#withinMs = ms === this.#lastMs ? Math.min(this.#withinMs + 1, 999) : 0;
    this.#lastMs = ms;
    return ms * 1_000 + this.#withinMs;
  }

  /** A message travels: the listener is called in a turn of its own. */
  #tell(attempt: string, wakeUp: WakeUp): boolean {
    const listener = this.#listeners.get(clientOf(attempt));
    if (!listener) return false;
    void Promise.resolve().then(() => {
      if (!this.#isStopped) listener.onWakeUp(attempt, wakeUp);
    });
    return true;
  }
}
