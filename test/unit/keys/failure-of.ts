import { LockKeyError } from '../../../lib/core/lock.errors.js';
import { thrownBy } from '../../support/waiting/rejection.js';

/** The error with which a key is refused. */
export function failureOf(work: () => unknown): LockKeyError {
  const error = thrownBy(work);
  if (error instanceof LockKeyError) return error;
  throw error;
}
