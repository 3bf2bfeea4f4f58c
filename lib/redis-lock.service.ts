import { Inject, Injectable } from '@nestjs/common';
import { type Locker } from './core/acquire/locker.js';
import { type Hold } from './core/hold/hold.js';
import { readTransferText } from './core/hold/transfer-text.js';
import { checkAdoptOptions, checkWaitOptions, checkWork, type Key, keysOf } from './core/call-arguments.js';
import { type LockHistoryEntry } from './core/history/history-entry.js';
import { LockHistory } from './core/history/lock-history.js';
import { LockBusyError } from './core/lock.errors.js';
import { type LockEvents } from './core/lock.events.js';
import { type Lock } from './core/lock.js';
import { type LockOptions, checkLockOptions, resolveLockOptions } from './core/lock.options.js';
import { OperatorCalls } from './core/operator-calls.js';
import { enterLock, refuseReentry } from './core/reentry/enter-lock.js';
import { runWithLock } from './core/reentry/run.js';
import { type LockStore } from './core/store/lock-store.js';
import { type LastRun, type LockState } from './core/store/lock-state.js';
import { Leaders } from './leader/leaders.js';
import type { LeadOptions, Leadership } from './leader/leadership.js';
import { type ResolvedModuleOptions } from './redis-lock.options.js';
import { keepParts } from './redis-lock.parts.js';
import { LOCKER, LOCK_STORE, RESOLVED_OPTIONS } from './redis-lock.tokens.js';

const NO_OPTIONS: LockOptions = Object.freeze({});

/** Acquires, releases and inspects locks: does for a block of code what the decorators do for a method. */
@Injectable()
export class RedisLockService {
  readonly #locker: Locker;
  readonly #defaults: ResolvedModuleOptions;
  readonly #leaders: Leaders;
  readonly #operator: OperatorCalls;
  readonly #history: LockHistory;

  /** Internal: Nest calls it. */
  constructor(
    @Inject(LOCKER) locker: Locker,
    @Inject(LOCK_STORE) store: LockStore,
    @Inject(RESOLVED_OPTIONS) defaults: ResolvedModuleOptions,
  ) {
    this.#locker = locker;
    this.#defaults = defaults;
    this.#leaders = new Leaders(locker, defaults);
    this.#operator = new OperatorCalls(locker, store);
    this.#history = new LockHistory(locker, store, defaults.history);
    keepParts(this, { locker, store, history: this.#history, leaders: this.#leaders });
  }

  /** The name of the connection of these locks; undefined for the default one. */
  get connection(): string | undefined {
    return this.#defaults.name;
  }

  /** The number of locks that this instance holds, and of its calls that are acquiring one, whether they wait or not. */
  get activity(): { readonly held: number; readonly waiting: number } {
    const { locks, waiting } = this.#locker.live;
    return { held: locks, waiting };
  }

  /** The events of the locks of this module; each is also published on a `node:diagnostics_channel`. */
  get events(): LockEvents {
    return this.#locker.events;
  }

  /**
   * Acquires a lock; waits up to `waitMs` while it is busy. Release it in a `finally`, or with `await using`. A nested call
   * does not re-enter it, unless both name the same `owner`.
   * @throws LockWaitTimeoutError, LockBusyError, LockStoreError, LockKeyError, LockShutdownError, LockConfigurationError,
   *   LockReentryError, `signal.reason`
   */
  acquire(key: Key, options: LockOptions = NO_OPTIONS): Promise<Lock> {
    // Not async: each call would create two more promises.
    try {
      const keys = keysOf(key);
      const checked = options === NO_OPTIONS ? options : checkLockOptions(options);
      const resolved = resolveLockOptions(checked, this.#defaults);
      const request = this.#locker.request(keys, resolved);
      refuseReentry(this.#locker, request);
      return this.#locker.acquire(request, this.#handOut);
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /**
   * Acquires a lock if it is free now, otherwise resolves to null; never waits.
   * @throws LockStoreError, LockKeyError, LockShutdownError, LockConfigurationError, LockReentryError, `signal.reason`
   */
  async tryAcquire(key: Key, options: LockOptions = {}): Promise<Lock | null> {
    try {
      return await this.acquire(key, { ...checkLockOptions(options), waitMs: 0 });
    } catch (error) {
      if (error instanceof LockBusyError) return null;
      throw error;
    }
  }

  /**
   * Continues a lock that another process has transferred; `text` is the transfer token from its `lock.transfer()`. It is the same hold,
   * with the same fencing token; this process renews it and must release it. A transfer token works once, until its lease is over;
   * after a LockStoreError or a LockShutdownError it may be used up. Options that are left out stay as they were.
   * @throws LockLostError, LockStoreError, LockShutdownError, LockConfigurationError
   */
  async adopt(text: string, options: Pick<LockOptions, 'leaseMs' | 'maxHoldMs' | 'renew'> = NO_OPTIONS): Promise<Lock> {
    const checked = checkAdoptOptions(options);
    const { awaitRelease } = this.#defaults;
    return this.#handOut(await this.#locker.adopt({ ...readTransferText(text), ...checked, awaitRelease }));
  }

  /**
   * Runs `work` under a lock, releases it, and returns the result of the work. Errors of the work are passed through unchanged; after a
   * loss it rejects with a LockLostError, even if the work returned (`error.result`). A nested call for a key that this chain of calls
   * holds enters at once, without a command to Redis; calls that run in parallel under one hold enter in turn.
   * @throws LockWaitTimeoutError, LockBusyError, LockLostError, LockStoreError, LockKeyError, LockReentryError, LockShutdownError,
   *   LockConfigurationError, `signal.reason`
   */
  withLock<T>(key: Key, work: (lock: Lock) => Promise<T> | T): Promise<T>;
  withLock<T>(key: Key, options: LockOptions, work: (lock: Lock) => Promise<T> | T): Promise<T>;
  withLock<T>(
    key: Key,
    optionsOrWork: LockOptions | ((lock: Lock) => Promise<T> | T),
    maybeWork?: (lock: Lock) => Promise<T> | T,
  ): Promise<T> {
    // Not async: a nested call would create two more promises.
    try {
      const hasOptions = typeof optionsOrWork !== 'function';
      const work = hasOptions ? maybeWork : optionsOrWork;
      const keys = keysOf(key);
      checkWork(work, hasOptions ? undefined : maybeWork, keys);
      const options = hasOptions ? checkLockOptions(optionsOrWork) : NO_OPTIONS;
      const request = this.#locker.request(keys, resolveLockOptions(options, this.#defaults));
      return runWithLock(enterLock(this.#locker, request), work);
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /**
   * Campaigns for the lead of `key` until the app shuts down: one of all campaigning instances leads at a time. It leads until it
   * resigns, is stopped, or loses its lock. The key is that of a lock. To lead with a class, use `@Leader`.
   * @throws LockKeyError, LockConfigurationError, `signal.reason`
   */
  lead(key: string, options?: LeadOptions): Leadership {
    return this.#leaders.lead(key, options);
  }

  /**
   * Reports the holders of a lock and the number of waiters; for several keys, an array in their order. Changes nothing. The
   * callers of another process that hand the lock to each other count as one.
   * @throws LockStoreError, LockKeyError
   */
  inspect(key: string): Promise<LockState>;
  inspect(keys: readonly string[]): Promise<LockState[]>;
  inspect(key: Key): Promise<LockState | LockState[]>;
  async inspect(key: Key): Promise<LockState | LockState[]> {
    return this.#operator.inspect(key);
  }

  /**
   * Returns whether the lock, or any of several locks, is held at this moment; this may have changed when you read the answer.
   * @throws LockStoreError, LockKeyError
   */
  async isLocked(key: Key): Promise<boolean> {
    return this.#operator.isLocked(key);
  }

  /**
   * Waits until the lock, or each of several locks, is free, without taking it and without a place in its queue: it may be held
   * again when this resolves. It reads the state repeatedly, at least once a second, and at once when a hold of this process ends.
   * `waitMs` is that of the module by default; 0 reads once.
   * @throws LockWaitTimeoutError, LockBusyError, LockStoreError, LockKeyError, LockShutdownError, LockConfigurationError,
   *   LockReentryError, `signal.reason`
   */
  async waitUntilFree(key: Key, options: Pick<LockOptions, 'waitMs' | 'signal'> = NO_OPTIONS): Promise<void> {
    const keys = keysOf(key);
    return this.#locker.waitUntilFree(keys, resolveLockOptions(checkWaitOptions(options), this.#defaults));
  }

  /**
   * Lists the locks that are held or waited for, at most `limit` (default 1,000), with keys that begin with `prefix` and contain
   * `contains`. It uses SCAN while locks come and go: use it for display, not for decisions. An unreadable lock has a `problem`.
   * @throws LockStoreError, LockConfigurationError
   */
  list(options: { prefix?: string; contains?: string; limit?: number } = {}): AsyncIterable<LockState> {
    return this.#operator.list(options);
  }

  /**
   * Revokes a lock: all its holders lose it (`LockLostError.reason` is `revoked`), and the waiters get it next. For operators:
   * the work of the holders may still be running. `by`: your name in the log, the event `forced` and the history. `upToToken`
   * spares holders with a later grant.
   * @returns whether the lock, or any of several locks, was held
   * @throws LockStoreError, LockKeyError, LockConfigurationError
   */
  async forceRelease(key: Key, options: { by?: string; upToToken?: number } = {}): Promise<boolean> {
    return this.#operator.forceRelease(key, options);
  }

  /**
   * Reads the history of the locks, or of the lock `key`, newest first: at most `limit` entries (default 100, at most 10,000) from before
   * the time `before`, of all instances with the option `history`. This instance does not need it to read. Entries may be missing.
   * @throws LockStoreError, LockKeyError, LockConfigurationError
   */
  async history(options: { key?: string; limit?: number; before?: Date } = {}): Promise<readonly LockHistoryEntry[]> {
    return this.#history.read(options);
  }

  /**
   * Sets the number of permits of a key from now on, for all instances, whatever their calls contain. Waiters that fit get in at once;
   * holders keep their permits. 0 lets no reader in; null leaves the number to the calls again. It is kept for 30 days after the last
   * use. A quorum has no semaphores.
   * @throws LockStoreError, LockKeyError, LockConfigurationError
   */
  async setPermits(key: string, permits: number | null): Promise<void> {
    return this.#operator.setPermits(key, permits);
  }

  /**
   * Returns the last run of a job that is locked with `oncePer`; null when none is remembered. The name of a job is its option
   * `job`, or its method, such as `Reports.noon`. Without a name, returns the run that began last among all jobs of the key.
   * @throws LockStoreError, LockKeyError, LockConfigurationError
   */
  async lastRun(key: string, job?: string): Promise<LastRun | null> {
    return this.#operator.lastRun(key, job);
  }

  /** One function for all calls. */
  readonly #handOut = (lock: Hold): Lock => this.#locker.handles.handOut(lock);
}
