import { LockConfigurationError, type LockMode } from '../core/lock.errors.js';
import {
  type LockOptions,
  checkConnectionName,
  checkDuration,
  checkLockOptions,
  checkOnUnavailable,
  MAX_LEASE_MS,
} from '../core/lock.options.js';
import { type LockedCall, type LockedOptions } from './locked-call.js';

const OWN = ['ifBusy', 'oncePer', 'spreadMs', 'rerunOnLoss', 'connection', 'onUnavailable'];
const MAX_SPREAD_MS = 3_600_000;

/**
 * Checks the options of a decorator when the class is defined.
 * @throws LockConfigurationError that begins with the class and the method
 */
export function checkLockedOptions(
  options: LockedOptions,
  { mode, kind, where }: Pick<LockedCall, 'kind' | 'where'> & { mode: LockMode },
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

function checkIfBusy(options: LockedOptions, kind: LockedCall['kind']): void {
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
