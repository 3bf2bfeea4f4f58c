import { type Ending } from '../hold/ending.js';
import { Hold, type WorkOutcome } from '../hold/hold.js';
import { LockLostError, type LockMode } from '../lock.errors.js';
import { runHolding } from './context.js';

/**
 * Runs `work` as the holder of a lock and releases the lock. An error of the work passes untouched. If the work returned but
 * the lock was lost meanwhile, rejects with the `LockLostError`; its `result` is what the work returned. If `takeOver`
 * returns a stream, that stream is the result, and it releases the lock itself. If the lock cannot be entered, the result is what
 * `instead` makes of the error.
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

/** A promise, or anything that may be one: only `await` may look for its `then`. A plain value needs no promise. */
export const isAwaitable = <T>(value: T | Promise<T>): value is Promise<T> =>
  (typeof value === 'object' && value !== null) || typeof value === 'function';

/** Releases the lock after its work; resolves to its loss, or to null if it was held to the end, as far as it is known then. */
export async function endWork(lock: Hold, outcome: WorkOutcome): Promise<LockLostError | null> {
  const lostBefore = lock.lost;
  const ending = finishWork(lock, outcome);
  if (ending) await ending.toPromise();
  return lostBefore ?? lock.lost;
}

/**
 * Releases the lock after its work; returns the release if its caller has to wait for that. With a lease that is proven now,
 * the release can only confirm what the caller relies on, unless the store has forgotten or revoked the lock: the `lost` event
 * tells that.
 */
function finishWork(lock: Hold, outcome: WorkOutcome): Ending | null {
  const mayReturn = !lock.awaitRelease && lock.provenMs > 0;
  const ending = lock.finish(outcome);
  return mayReturn ? null : ending;
}

/** Makes a copy of the error: parallel calls under one hold lose it together, and each has a result of its own. */
export function withResult(
  { message, key, reason, cause }: LockLostError,
  result: unknown,
  mode: LockMode,
): LockLostError {
  return new LockLostError(message, { key, mode, reason, result, ...(cause === undefined ? {} : { cause }) });
}
