import { type Hold } from '../hold/hold.js';
import { type StoreHold } from '../hold/store-hold.js';
import { LockShutdownError, LockStoreError } from '../lock.errors.js';
import { messageOf } from '../reporter.js';

/** For locks that were waited for one after the other: an earlier one may be gone when the last comes. */
export function throwIfLost(locks: readonly Hold[]): void {
  const lost = locks.find((lock) => lock.lost);
  if (lost) throw lost.lost!;
}

/** The module closes; one for each call, which says where it comes from. */
export const shutdownError = (): LockShutdownError =>
  new LockShutdownError('The application is shutting down: locks are no longer acquired.');

/** A command for a lock that is held had no answer. */
export const unconfirmedError = (lock: StoreHold, done: string, cause: unknown): LockStoreError => {
  const text = `The lock "${lock.key}" could not be ${done}: ${messageOf(cause)}. It is held while \`held\` is true.`;
  return new LockStoreError(text, { key: lock.key, mode: lock.mode, cause });
};
