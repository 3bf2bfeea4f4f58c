import { type HeldLock } from './held-lock.js';
import { runHolding } from './lock-context.js';

/**
 * Runs `work` as the holder of `lock` and releases it. The work's own error passes untouched; when the work returned but
 * the lock was lost meanwhile, this rejects with the `LockLostError`, and the value is its `result`.
 */
export async function runWithLock<T>(lock: HeldLock, work: (lock: HeldLock) => T | Promise<T>): Promise<T> {
  let result: T;
  try {
    result = await runHolding(lock, () => work(lock));
  } catch (error) {
    await lock.release();
    throw error;
  }
  const lostBefore = lock.lost;
  await lock.release();
  const lost = lostBefore ?? lock.lost;
  if (lost) {
    lost.result = result;
    throw lost;
  }
  return result;
}
