import { LockKeyError } from '../../../lib/core/lock.errors.js';

/** The error with which a key is refused. */
export function failureOf(work: () => unknown): LockKeyError {
  try {
    work();
  } catch (error) {
    if (error instanceof LockKeyError) return error;
    throw error;
  }
  throw new Error('nothing was thrown');
}
