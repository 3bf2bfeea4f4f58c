import { type LockMode } from './lock.errors.js';

/** One held lock. `await using lock = await locks.acquire('a')` releases it at the end of the block. */
export interface Lock extends AsyncDisposable {
  /** The key; several are joined by `, `. */
  readonly key: string;
  /** All keys, in the order in which they were asked for. */
  readonly keys: readonly string[];
  readonly mode: LockMode;
  /** Who holds it in the store: the caller's `owner`, else a random id of this acquisition. */
  readonly owner: string;
  /**
   * Strictly greater than that of every earlier grant of this key; a safe integer (microseconds of the server's clock).
   * Let the protected resource refuse smaller ones. With several keys: that of the first.
   */
  readonly fencingToken: number;
  /** The fencing token of each key, in the order of `keys`. */
  readonly fencingTokens: readonly number[];
  /**
   * Aborted with a `LockLostError` when the lock is lost, before another can hold it. Its listeners are called in the
   * async context of whoever asked for it first.
   */
  readonly signal: AbortSignal;
  /** Whether the lease can be proven right now. */
  readonly held: boolean;
  /** What is left of the proven lease, in milliseconds. */
  readonly remainingMs: number;
  /**
   * Makes the lease last at least `leaseMs` from now; never shortens it.
   * @throws LockLostError, LockNotHeldError after release, LockStoreError when Redis cannot be asked
   */
  extend(leaseMs: number): Promise<void>;
  /**
   * Turns a write lock into a read lock without a gap: waiting readers get in, a waiting writer does not. The fencing
   * token stays; a read lock stays as it is.
   * @throws LockLostError, LockNotHeldError after release, LockStoreError when Redis cannot be asked (then it is to be
   *   taken as a read lock, and becomes one in Redis with the next renewal or downgrade), LockReentryError inside a nested
   *   call, or beside one that writes
   */
  downgrade(): Promise<void>;
  /**
   * Gives the lock back; does nothing when it was released or lost. Never rejects: an error is reported.
   * @returns whether it was still held: false the second time, and when it was lost, as far as this process or the
   *   store can tell
   */
  release(): Promise<boolean>;
}
