import { type Ending } from '../hold/ending.js';
import { Hold, type WorkOutcome } from '../hold/hold.js';
import { LockLostError, type LockMode } from '../lock.errors.js';
import { runHolding } from './context.js';

/**
 * Runs `work` as the holder of a lock and releases the lock. An error of the work is passed through unchanged. If the work returned
 * but the lock was lost meanwhile, rejects with the `LockLostError`; its `result` is the return value of the work. If `takeOver`
 * returns a stream, that stream is the result, and it releases the lock itself. If the lock cannot be entered, the result is what
 * `instead` returns for the error.
 */
export async function runWithLock<T>(
  entering: Hold | Promise<Hold>,
  work: (lock: Hold) => T | Promise<T>,
  takeOver?: (result: T, lock: Hold) => T | null,
  instead?: (error: unknown) => T | Promise<T>,
): Promise<T> {
  let lock: Hold;
  try {
    lock = entering instanceof Hold ? entering : await entering;
  } catch (error) {
    if (!instead) throw error;
    return instead(error);
  }
  let result: T;
  try {
    const pending = runHolding(lock, work);
    result = isAwaitable(pending) ? await pending : pending;
    const stream = takeOver?.(result, lock);
    if (stream) return stream;
  } catch (error) {
    await endWork(lock, 'failed');
    throw error;
  }
  const lostBefore = lock.lost;
  const ending = finishWork(lock, 'done');
  if (!ending) return resultOf(lock, result, lostBefore);
  return ending.andThen(() => resultOf(lock, result, lostBefore ?? lock.lost));
}

/** @throws LockLostError */
function resultOf<T>(lock: Hold, result: T, lost: LockLostError | null): T {
  if (lost) throw withResult(lost, result, lock.mode);
  return result;
}

/** Whether a value is, or may be, a promise: only `await` may read its `then`. A plain value needs no promise. */
export const isAwaitable = <T>(value: T | Promise<T>): value is Promise<T> =>
  (typeof value === 'object' && value !== null) || typeof value === 'function';

/** Releases the lock after its work; resolves to its loss, or to null if no loss is known by then. */
export async function endWork(lock: Hold, outcome: WorkOutcome): Promise<LockLostError | null> {
  const lostBefore = lock.lost;
  const ending = finishWork(lock, outcome);
  if (ending) await ending.toPromise();
  return lostBefore ?? lock.lost;
}

/**
 * Releases the lock after its work; returns the release if its caller has to wait for it. With a lease that is proven now,
 * the release can only confirm what the caller relies on, unless the store has forgotten or revoked the lock: the `lost` event
 * reports that.
 */
function finishWork(lock: Hold, outcome: WorkOutcome): Ending | null {
  const mayReturn = !lock.awaitRelease && lock.provenMs > 0;
  const ending = lock.finish(outcome);
  return mayReturn ? null : ending;
}

/** Copies the error: parallel calls under one hold lose it together, and each has its own result. */
export function withResult(
  { message, key, reason, cause }: LockLostError,
  result: unknown,
  mode: LockMode,
): LockLostError {
  return new LockLostError(message, { key, mode, reason, result, ...(cause === undefined ? {} : { cause }) });
}
