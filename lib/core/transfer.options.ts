import { checkLockOptions } from './lock.options.js';
import { readOptions } from './read-options.js';

/** The options of `transfer`. */
export interface TransferOptions {
  /**
   * How long the lock is kept for the process that adopts it, in milliseconds; the lease is never shortened.
   * @default the `leaseMs` of the lock
   */
  leaseMs?: number;
}

/** The options of `adopt`; what is left out is as it was in the process that transferred the lock. Durations are milliseconds. */
export interface AdoptOptions {
  /**
   * How long Redis grants the lock for from now on; the lease is never shortened.
   * @default that of the lock
   */
  leaseMs?: number;
  /**
   * How long the lock may be held from now on.
   * @default what was left of it when the lock was transferred
   */
  maxHoldMs?: number;
  /**
   * Whether the watchdog renews the lease.
   * @default as before
   */
  renew?: boolean;
}

const TRANSFER_OPTIONS = { leaseMs: true } satisfies Record<keyof TransferOptions, true>;
const ADOPT_OPTIONS = { leaseMs: true, maxHoldMs: true, renew: true } satisfies Record<keyof AdoptOptions, true>;

/** @throws LockConfigurationError */
export const checkTransferOptions = (options: TransferOptions): TransferOptions =>
  checkLockOptions(readOptions(options, Object.keys(TRANSFER_OPTIONS)));

/** @throws LockConfigurationError */
export const checkAdoptOptions = (options: AdoptOptions): AdoptOptions =>
  checkLockOptions(readOptions(options, Object.keys(ADOPT_OPTIONS)));
