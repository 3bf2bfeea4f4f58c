import { AsyncLocalStorage } from 'node:async_hooks';
import { type HandleTracker, type Hold } from './hold.js';
import { type LockMode, LockNotHeldError } from '../lock.errors.js';
import { type Lock } from '../lock.js';
import { printable } from '../printable.js';
import { type Reporter } from '../reporter.js';

/**
 * What `acquire()` gives out. The watchdog holds the lock behind it and never this object, so that a handle which is
 * dropped without a release can be noticed when it is garbage-collected.
 */
class LockHandle implements Lock {
  readonly #lock: Hold;

  constructor(lock: Hold) {
    this.#lock = lock;
  }

  get key(): string {
    return this.#lock.key;
  }

  get keys(): readonly string[] {
    return this.#lock.keys;
  }

  get mode(): LockMode {
    return this.#lock.mode;
  }

  get owner(): string {
    return this.#lock.owner;
  }

  get fencingToken(): number {
    return this.#lock.fencingToken;
  }

  get fencingTokens(): readonly number[] {
    return this.#lock.fencingTokens;
  }

  get signal(): AbortSignal {
    return this.#lock.signal;
  }

  get held(): boolean {
    return this.#lock.held;
  }

  get remainingMs(): number {
    return this.#lock.remainingMs;
  }

  extend(leaseMs: number): Promise<void> {
    return this.#lock.extend(leaseMs);
  }

  downgrade(): Promise<void> {
    return this.#lock.downgrade();
  }

  release(): Promise<boolean> {
    return this.#lock.release();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#lock.release();
  }
}

/** Gives out handles and notices those that are dropped. */
export class HandleRegistry implements HandleTracker {
  readonly #dropped: FinalizationRegistry<Hold>;

  constructor(reporter: Reporter) {
    const onDropped = (lock: Hold): void => {
      if (lock.lost) return;
      const text =
        `A handle of the lock "${lock.key}" was dropped without a release; releasing it now. Call \`release()\` in a ` +
        '`finally`, or use `await using` or `withLock`.';
      reporter.error(printable(text));
      // Whoever kept no more than the signal is to be told before another can hold the lock.
      if (lock.hasSignal) lock.lose('dropped', new LockNotHeldError(text, lock));
      void lock.release();
    };
    // A collection may happen in anybody's context.
    this.#dropped = new FinalizationRegistry(AsyncLocalStorage.bind(onDropped));
  }

  handOut(lock: Hold): Lock {
    return this.track(new LockHandle(lock), lock);
  }

  /** Releases `lock` when `holder` is garbage-collected and did not. */
  track<T extends object>(holder: T, lock: Hold): T {
    this.#dropped.register(holder, lock, lock);
    lock.tracker = this;
    return holder;
  }

  /**
   * What is done with would be kept until the next collection, and called back for nothing. And a registry that is itself
   * collected must have nothing left to call back for: else V8 (of Node 20) calls back no registry of the process any more.
   */
  forget(lock: Hold): void {
    this.#dropped.unregister(lock);
  }
}
