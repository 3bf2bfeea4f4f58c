import { LockConfigurationError, type LockMode } from '../core/lock.errors.js';
import {
  type LockOptions,
  type OnUnavailable,
  checkConnectionName,
  checkDuration,
  checkLockOptions,
  checkOnUnavailable,
  MAX_LEASE_MS,
} from '../core/lock.options.js';
import { type ResultKind } from './streams/stream-kind.js';

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

const OWN = ['ifBusy', 'oncePer', 'spreadMs', 'rerunOnLoss', 'connection', 'onUnavailable'];
const MAX_SPREAD_MS = 3_600_000;

/**
 * Checks the options of a decorator when the class is defined.
 * @throws LockConfigurationError that begins with the class and the method
 */
export function checkLockedOptions(
  options: LockedOptions,
  { mode, kind, where }: { mode: LockMode; kind: ResultKind; where: string },
): void {
  try {
    const isObject = typeof options === 'object' && options !== null;
    if (isObject && 'mode' in options) {
      fail('`mode` is said by the decorator: use @ReadLocked or @WriteLocked.');
    }
    checkLockOptions(isObject ? { ...options, mode, ...standIn(options) } : options, OWN);
    checkConnectionName(options.connection, 'connection');
    if (options.onUnavailable !== undefined) checkOnUnavailable(options.onUnavailable);
    checkIfBusy(options, kind);
    checkOncePer(options, mode);
  } catch (error) {
    throw new LockConfigurationError(`${where}: ${(error as Error).message}`, { cause: error });
  }
}

/** What a function gives is checked when it is called: until then some number stands for it. */
const standIn = ({ permits }: LockedOptions): Pick<LockOptions, 'permits'> =>
  typeof permits === 'function' ? { permits: 1 } : {};

function checkIfBusy(options: LockedOptions, kind: ResultKind): void {
  const { oncePer, rerunOnLoss, waitMs } = options;
  const { ifBusy = oncePer === undefined ? 'wait' : 'skip' } = options;
  if (!['wait', 'skip', 'throw'].includes(ifBusy as string) && typeof ifBusy !== 'function') {
    fail(`Expected \`ifBusy\` to be 'wait', 'skip', 'throw' or a function, got ${typeof ifBusy}.`);
  }
  if (typeof ifBusy === 'function' && kind !== 'promise') {
    fail("A function as `ifBusy` cannot answer for a method that returns a stream; use 'wait', 'skip' or 'throw'.");
  }
  const said = `\`ifBusy: ${typeof ifBusy === 'function' ? 'a function' : `'${ifBusy}'`}\``;
  if (rerunOnLoss && oncePer !== undefined && ifBusy !== 'skip') {
    fail(`With \`rerunOnLoss\` all others wait for the run to end and then skip; leave ${said} out.`);
  }
  if (ifBusy !== 'wait' && waitMs && !rerunOnLoss) {
    const beside = options.ifBusy === undefined ? '`oncePer`' : said;
    fail(`\`waitMs: ${waitMs}\` has no effect beside ${beside}, which tries once; leave it out.`);
  }
}

function checkOncePer({ oncePer, spreadMs, rerunOnLoss, permits, reentrant }: LockedOptions, mode: LockMode): void {
  checkBoolean('rerunOnLoss', rerunOnLoss);
  if (spreadMs !== undefined) checkDuration(spreadMs, 'spreadMs', { min: 0, max: MAX_SPREAD_MS });
  if (oncePer === undefined) {
    if (spreadMs !== undefined || rerunOnLoss !== undefined) {
      fail('`spreadMs` and `rerunOnLoss` are for scheduled jobs; give them an `oncePer`, or leave them out.');
    }
    return;
  }
  if (oncePer !== 'fire' && typeof oncePer !== 'function') {
    checkDuration(oncePer, 'oncePer', { min: 1, max: MAX_LEASE_MS }, "'fire', a function that gives a Date, or ");
  }
  if (reentrant) fail('A job that runs once per fire cannot run inside itself; leave `reentrant` out.');
  if (mode === 'read' || permits !== undefined) fail('`oncePer` lets one call run: use it with @Locked.');
}

/**
 * Checks the key of a job, when the class is defined and, for a key function, at each call: a fire is claimed at one key.
 * @throws LockConfigurationError that begins with the class and the method
 */
export function checkJobKey(key: unknown, where: string): void {
  if (!Array.isArray(key) || key.length < 2) return;
  throw new LockConfigurationError(`${where}: \`oncePer\` needs one key, got ${key.length}; give the job one name.`);
}

function checkBoolean(name: string, value: unknown): void {
  if (value !== undefined && typeof value !== 'boolean')
    fail(`Expected \`${name}\` to be true or false, got ${typeof value}.`);
}

function fail(text: string): never {
  throw new LockConfigurationError(text);
}
