import { type Hold, type WorkOutcome } from '../hold/hold.js';
import { runHolding } from './context.js';
import { LockLostError, type LockMode } from '../lock.errors.js';

/**
 * Runs `work` as the holder of `lock` and releases it. The work's own error passes untouched; when the work returned but
 * the lock was lost meanwhile, this rejects with the `LockLostError`, and the value is its `result`. A result that
 * `takeOver` replaces (a stream) keeps the lock, and ends it itself.
 */
export async function runWithLock<T>(
  lock: Hold,
  work: (lock: Hold) => T | Promise<T>,
  takeOver?: (result: T) => T | null,
): Promise<T> {
  let result: T;
  try {
    result = await runHolding(lock, () => work(lock));
    const stream = takeOver?.(result);
    if (stream) return stream;
  } catch (error) {
    await lock.releaseAfter('failed');
    throw error;
  }
  const lost = await endWork(lock, 'done');
  if (lost) throw withResult(lost, result, lock.mode);
  return result;
}

/** Releases a lock after its work. Returns the loss, if the lock was lost during the work or the release finds it gone. */
export async function endWork(lock: Hold, outcome: WorkOutcome): Promise<LockLostError | null> {
  const lostBefore = lock.lost;
  await lock.releaseAfter(outcome);
  return lostBefore ?? lock.lost;
}

/** An error of its own: parallel calls under one hold lose it together, and each has another result. */
function withResult({ message, key, reason, cause }: LockLostError, result: unknown, mode: LockMode): LockLostError {
  return new LockLostError(message, { key, mode, reason, result, ...(cause === undefined ? {} : { cause }) });
}
