import { type LockOptions, type OnUnavailable } from '../core/lock.options.js';

export { scheduledMethod } from '../schedule/schedule-metadata.js';

/** The options of the decorators. */
export interface LockedOptions extends Omit<LockOptions, 'mode' | 'permits'> {
  /**
   * For reading: at most this many holders at once (a counting semaphore), or a function of the arguments that gives it,
   * called with `this` = the instance. Each call counts all readers of the key.
   * @default no limit
   */
  permits?: number | ((...args: any[]) => number);
  /**
   * What a call does when the lock is busy: `wait` up to `waitMs`, `skip` (resolve `undefined` without running), `throw` a
   * `LockBusyError` at once, or answer by a function of the key and the arguments. All but `wait` try once.
   * @default 'wait'; with `oncePer`: 'skip'
   */
  ifBusy?: 'wait' | 'skip' | 'throw' | ((key: string, ...args: any[]) => unknown);
  /**
   * For scheduled jobs that fire on every instance: the method runs on exactly one of them, the others resolve
   * `undefined`. `fire`: once per fire of the method's `@Cron`, `@Interval` or `@Timeout`, or of the cron job of the
   * SchedulerRegistry that calls it; a number: once per slot of that many milliseconds, on the clock of Redis; a function
   * of the arguments, called with `this` = the instance: once for each Date that it gives.
   */
  oncePer?: 'fire' | number | ((...args: any[]) => Date);
  /**
   * With `oncePer`: each instance waits for a random time up to this many milliseconds before it claims the fire, so
   * that the winner changes from fire to fire; 0 is off.
   * @default 50
   */
  spreadMs?: number;
  /**
   * With `oncePer`: when the instance that runs a fire dies, another one runs that fire again; the others wait for it,
   * up to `waitMs`, or up to two leases.
   * @default false
   */
  rerunOnLoss?: boolean;
  /** The named connection to lock on; the default one when left out. */
  connection?: string;
  /**
   * What a call does when Redis cannot be asked: `fail` with a `LockStoreError`, `skip` (resolve `undefined` without
   * running), or `run-unlocked`, which gives up exclusion for availability.
   * @default the module's `onUnavailable`
   */
  onUnavailable?: OnUnavailable;
}

/** What a decorator found out when the class was defined. */
export interface LockedCall {
  /** Class and method, for people. */
  readonly where: string;
  /** The key template, or what stands for it. */
  readonly template: string;
  readonly keyOf: (self: unknown, args: readonly unknown[]) => string | readonly string[];
  /** What a call returns in its own turn. */
  readonly kind: 'promise' | 'observable' | 'async-iterable';
  /** The decorated method, or what stands in its place and carries the metadata of a schedule. */
  readonly method: (self: unknown) => Function;
  readonly options: LockedOptions & Pick<LockOptions, 'mode'>;
}
