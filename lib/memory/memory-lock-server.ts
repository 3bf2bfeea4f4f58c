import { setImmediate } from 'node:timers';
import { type Clock, systemClock } from '../core/clock.js';
import { type WakeUp, type WakeUpListener } from '../core/store/lock-store.js';
import { LockStoreError } from '../core/lock.errors.js';
import { type Subject, keyOfSubject } from '../core/store/subject.js';
import { clientOf } from './hand-over.js';
import { MemoryHistory } from './memory-history.js';
import { MemoryLocks } from './memory-locks.js';

/** Tokens are as great as in production even with a clock that starts in 1970: a test finds a column that is too small. */
const LEAST_TOKEN = 2 ** 50;

/** The options of `MemoryLockServer`. */
export interface MemoryLockServerOptions {
  /** @default the clock of the process */
  readonly clock?: Clock;
}

/**
 * Stands for a Redis, in memory: apps of one process that use the same server share their locks. It is as strict as Redis
 * about leases, queues, tokens and wake-ups, and you can stop it to see what an app does then.
 */
export class MemoryLockServer {
  readonly clock: Clock;
  /** Internal: the locks of the stores. */
  readonly locks: MemoryLocks;
  /** Internal: what has happened to them. */
  readonly history = new MemoryHistory();
  readonly #listeners = new Map<string, WakeUpListener>();
  #isStopped = false;
  #lastMs = 0;
  #withinMs = 0;

  constructor({ clock = systemClock }: MemoryLockServerOptions = {}) {
    this.clock = clock;
    this.locks = new MemoryLocks(
      (attempt, wakeUp) => this.#tell(attempt, wakeUp),
      () => this.#micros(),
      LEAST_TOKEN,
    );
  }

  /** Stops the server: until `start`, commands fail with a `LockStoreError` and no wake-ups are sent. Locks are kept. */
  stop(): void {
    this.#isStopped = true;
  }

  /** Starts the server again, with all locks whose leases have not ended. */
  start(): void {
    if (!this.#isStopped) return;
    this.#isStopped = false;
    for (const listener of this.#listeners.values()) listener.onMessagesMissed();
  }

  /** Runs one command; internal. @throws LockStoreError while the server is stopped */
  async run<T>(subject: Subject, command: (locks: MemoryLocks) => T): Promise<T> {
    // As with a real server, nothing happens in the turn of the caller, and others have their turn before the reply.
    await new Promise<void>((resolve) => void setImmediate(resolve));
    if (this.#isStopped) {
      throw new LockStoreError(`${commandText(subject)}: the MemoryLockServer is stopped. Call its start().`, {
        key: keyOfSubject(subject),
      });
    }
    this.locks.forgetUnused();
    return command(this.locks);
  }

  /** Sends wake-ups to a store until the returned function is called; internal. */
  connect(clientId: string, listener: WakeUpListener): () => void {
    this.#listeners.set(clientId, listener);
    void Promise.resolve().then(() => this.#listeners.get(clientId)?.onListening());
    return () => this.#listeners.delete(clientId);
  }

  /** The clock has steps of one millisecond; within one, commands get different microseconds, as on a real server. */
  #micros(): number {
    const ms = Math.floor(this.clock.wallNow());
    this.#withinMs = ms === this.#lastMs ? Math.min(this.#withinMs + 1, 999) : 0;
    this.#lastMs = ms;
    return ms * 1_000 + this.#withinMs;
  }

  /** Messages take time: the listener is called in a turn of its own. */
  #tell(attempt: string, wakeUp: WakeUp): boolean {
    const listener = this.#listeners.get(clientOf(attempt));
    if (!listener) return false;
    void Promise.resolve().then(() => {
      if (!this.#isStopped) listener.onWakeUp(attempt, wakeUp);
    });
    return true;
  }
}

const commandText = (subject: Subject): string =>
  typeof subject === 'string' ? `No command reaches the lock "${subject}"` : `The store cannot ${subject.task}`;
