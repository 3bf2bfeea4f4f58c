import { type LockOptions } from '../core/lock-options.js';

/** The options of the decorators. */
export interface LockedOptions extends Omit<LockOptions, 'mode'> {
  /**
   * What a call does when the lock is busy: `wait` up to `waitMs`, `skip` (resolve `undefined` without running), `throw` a
   * `LockBusyError` at once, or answer by a function of the key and the arguments. All but `wait` try once.
   * @default 'wait'
   */
  ifBusy?: 'wait' | 'skip' | 'throw' | ((key: string, ...args: any[]) => unknown);
  /** The named connection to lock on; the default one when left out. */
  connection?: string;
}

/** What a decorator found out when the class was defined. */
export interface LockedCall {
  /** Class and method, for people. */
  readonly where: string;
  readonly keyOf: (self: unknown, args: readonly unknown[]) => string | readonly string[];
  readonly options: LockedOptions & LockOptions;
}
