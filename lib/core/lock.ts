import { type LockMode } from './lock.errors.js';

/** One held lock. `await using lock = await locks.acquire('a')` releases it at the end of the block. */
export interface Lock extends AsyncDisposable {
  /** The key; several are joined by `, `. */
  readonly key: string;
  /** All keys, in the order in which the caller named them. */
  readonly keys: readonly string[];
  readonly mode: LockMode;
  /** The name of the holder in the store: the caller's `owner`, or else a random id of this acquisition. */
  readonly owner: string;
  /**
   * Strictly greater than that of every earlier grant of this key; a safe integer (microseconds of the server's clock).
   * Let the protected resource refuse smaller ones. With several keys: that of the first.
   */
  readonly fencingToken: number;
  /** The fencing token of each key, in the order of `keys`. */
  readonly fencingTokens: readonly number[];
  /**
   * Aborted with a `LockLostError` when the lock is lost: before another caller can hold it, unless an operator revoked it, a
   * failover forgot it, or this process was paused. Its listeners run in the async context of the code that first read it.
   */
  readonly signal: AbortSignal;
  /** Whether the lease can be proven right now. */
  readonly held: boolean;
  /** The rest of the proven lease, in milliseconds. */
  readonly remainingMs: number;
  /**
   * Makes the lease last at least `leaseMs` from now; never shortens it.
   * @throws LockLostError, LockNotHeldError, LockStoreError
   */
  extend(leaseMs: number): Promise<void>;
  /**
   * Turns a write lock into a read lock without releasing it: waiting readers get in, a waiting writer does not. The
   * fencing token stays the same. Does nothing to a read lock. After a LockStoreError, treat it as a read lock: it becomes one in
   * Redis with the next renewal or downgrade.
   * @throws LockLostError, LockNotHeldError, LockStoreError, LockReentryError
   */
  downgrade(): Promise<void>;
  /**
   * Gives the lock to another process: returns a transfer token, with which `adopt` of its service continues the same hold, once, until
   * the lease is over. From then on this handle counts as released. Only for a handle of `acquire`, `tryAcquire` or `adopt`. The
   * transfer token is a secret, because it suffices to take the lock. After a LockStoreError, the lock is kept.
   * @throws LockLostError, LockNotHeldError, LockStoreError, LockConfigurationError
   */
  transfer(options?: { leaseMs?: number }): Promise<string>;
  /**
   * Releases the lock; does nothing if it was released or lost before. Never rejects: an error is logged.
   * @returns whether it was still held: false the second time, and false if it was lost, as far as this process or the
   *   store has noticed
   */
  release(): Promise<boolean>;
}
