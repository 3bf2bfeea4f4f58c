import { Inject, Injectable } from '@nestjs/common';
import { type HeldLock } from './core/held-lock.js';
import { heldInContext } from './core/lock-context.js';
import { LockBusyError, LockConfigurationError, LockReentryError } from './core/lock.errors.js';
import { type LockOptions, checkLockOptions, resolveLockOptions } from './core/lock-options.js';
import { type LockState, type LockStore } from './core/lock-store.js';
import { type Lock } from './core/lock.js';
import { type Locker } from './core/locker.js';
import { runWithLock } from './core/with-lock.js';
import { type ResolvedModuleOptions } from './redis-lock.options.js';
import { LOCKER, LOCK_STORE, RESOLVED_OPTIONS } from './redis-lock.tokens.js';

/** Acquires, releases and inspects locks; what the decorators do, for code of your own. */
@Injectable()
export class RedisLockService {
  constructor(
    @Inject(LOCKER) private readonly locker: Locker,
    @Inject(LOCK_STORE) private readonly store: LockStore,
    @Inject(RESOLVED_OPTIONS) private readonly defaults: ResolvedModuleOptions,
  ) {}

  /** The name of the connection whose locks these are; undefined for the default one. */
  get connection(): string | undefined {
    return this.defaults.name;
  }

  /**
   * Acquires a lock, waiting for it up to `waitMs`. Release it in a `finally`, or with `await using`.
   * @throws LockWaitTimeoutError, LockBusyError (`waitMs: 0`), LockStoreError, LockKeyError, LockShutdownError,
   *   LockConfigurationError, or `signal.reason`
   */
  async acquire(key: string, options: LockOptions = {}): Promise<Lock> {
    return this.#acquire(key, options);
  }

  /**
   * Acquires a lock if it is free now, else gives null; never waits.
   * @throws LockStoreError, LockKeyError, LockShutdownError, LockConfigurationError, or `signal.reason`
   */
  async tryAcquire(key: string, options: LockOptions = {}): Promise<Lock | null> {
    try {
      return await this.#acquire(key, { ...options, waitMs: 0 });
    } catch (error) {
      if (error instanceof LockBusyError) return null;
      throw error;
    }
  }

  /**
   * Runs `work` under a lock and releases it. An error of the work passes untouched.
   * @throws what `acquire` throws; LockLostError when the lock was lost, even if the work returned (`error.result`);
   *   LockReentryError when this chain of calls holds the key already
   */
  withLock<T>(key: string, work: (lock: Lock) => Promise<T> | T): Promise<T>;
  withLock<T>(key: string, options: LockOptions, work: (lock: Lock) => Promise<T> | T): Promise<T>;
  async withLock<T>(
    key: string,
    optionsOrWork: LockOptions | ((lock: Lock) => Promise<T> | T),
    maybeWork?: (lock: Lock) => Promise<T> | T,
  ): Promise<T> {
    const work = typeof optionsOrWork === 'function' ? optionsOrWork : maybeWork;
    if (typeof work !== 'function') {
      throw new LockConfigurationError(`Expected the work of withLock("${key}") to be a function, got ${typeof work}.`);
    }
    return this.runLocked(key, typeof optionsOrWork === 'function' ? {} : optionsOrWork, '', work);
  }

  /** What `withLock` does, for a method that is named by `context`; internal. */
  async runLocked<T>(
    key: string,
    options: LockOptions,
    context: string,
    work: (lock: Lock) => Promise<T> | T,
  ): Promise<T> {
    refuseReentry(key, heldInContext(key, this.locker), options);
    return runWithLock(await this.#acquire(key, options, context), work);
  }

  /**
   * Tells who holds a lock and how many wait; changes nothing.
   * @throws LockStoreError, LockKeyError
   */
  async inspect(key: string): Promise<LockState> {
    this.store.checkKey(key);
    return this.store.inspect(key);
  }

  /**
   * Whether somebody holds the lock at this moment; it may be over when you read it.
   * @throws LockStoreError, LockKeyError
   */
  async isLocked(key: string): Promise<boolean> {
    return (await this.inspect(key)).mode !== 'free';
  }

  /**
   * The locks that are held or waited for, by SCAN: a look at a moving picture, for people.
   * @throws LockStoreError
   */
  list(options: { prefix?: string; limit?: number } = {}): AsyncIterable<LockState> {
    return this.store.list({ prefix: options.prefix ?? '', limit: options.limit ?? 1_000 });
  }

  async #acquire(key: string, options: LockOptions, context = ''): Promise<HeldLock> {
    checkLockOptions(options);
    return this.locker.acquire(key, resolveLockOptions(options, this.defaults), context);
  }
}

/** A nested call on a key that the same chain of calls holds would wait for itself until its limit: it is told at once. */
function refuseReentry(key: string, held: HeldLock | undefined, options: LockOptions): void {
  if (!held) return;
  const mode = options.mode ?? 'write';
  throw new LockReentryError(
    `The lock "${key}" is acquired for ${mode} inside a call that holds it for ${held.mode}: it would wait for itself. ` +
      'Call the inner work without a lock of its own, or release the outer lock first.',
    { key, mode },
  );
}
