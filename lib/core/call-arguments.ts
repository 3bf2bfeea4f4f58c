import { checkedKey } from './key.js';
import { LockConfigurationError, LockKeyError } from './lock.errors.js';
import { LOCK_OPTIONS, type LockOptions } from './lock.options.js';
import { checkOptions, kindOf, option, OWNER } from './option-checks.js';
import { messageOf } from './reporter.js';

/** One key, or several. Several keys are locked all or nothing, and calls that name them in different orders do not deadlock. */
export type Key = string | readonly string[];

/** The options of `forceRelease`. `by`: the name of the operator. `upToToken`: a holder with a later fencing token keeps the lock. */
export interface ForceReleaseOptions {
  by?: string;
  upToToken?: number;
}

/** @throws LockKeyError unless the key is a string or a list of strings */
export function keysOf(key: Key): readonly string[] {
  if (typeof key === 'string') return [key];
  try {
    const keys = Array.isArray(key) ? copyOf(key) : [];
    if (keys.length > 0) return keys;
  } catch (cause) {
    if (cause instanceof LockKeyError) throw cause;
    throw new LockKeyError(`The lock key cannot be read: ${messageOf(cause)}. Pass a string or an array of them.`, {
      cause,
    });
  }
  const got = Array.isArray(key) ? 'an empty list' : `a value of type ${typeof key}`;
  throw new LockKeyError(`Expected a lock key to be a non-empty string, or a non-empty list of them, got ${got}.`);
}

/** Reads each key once, up to the first invalid one: a list may be huge and sparse, or change while it is read. */
function copyOf(list: readonly unknown[]): readonly string[] {
  const keys: string[] = [];
  for (let i = 0; i < list.length; i += 1) keys.push(checkedKey(list[i]));
  return keys;
}

/**
 * `after`: what follows the work, such as options, which would be ignored there.
 * @throws LockConfigurationError
 */
export function checkWork(work: unknown, after: unknown, keys: readonly string[]): asserts work is Function {
  if (typeof work === 'function' && after === undefined) return;
  const got = typeof work === 'function' ? `a value of type ${typeof after} after it` : typeof work;
  const text = `Expected the work of withLock("${keys.join(', ')}") to be a function, after the options, got ${got}.`;
  throw new LockConfigurationError(text, { key: keys.join(', ') });
}

/** @throws LockConfigurationError */
export function checkJob(key: string, job: unknown): string {
  if (typeof job === 'string' && job !== '') return job;
  const got = job === '' ? 'an empty string' : `a value of type ${typeof job}`;
  throw new LockConfigurationError(
    `Expected the job of lastRun("${key}") to be its name, such as 'Reports.noon', got ${got}.`,
    { key },
  );
}

const { leaseMs, maxHoldMs, renew, waitMs, signal } = LOCK_OPTIONS;

/** @throws LockConfigurationError */
export const checkWaitOptions = (options: Pick<LockOptions, 'waitMs' | 'signal'>): typeof options =>
  checkOptions(options, { waitMs, signal });

/** @throws LockConfigurationError */
export const checkTransferOptions = (options: Pick<LockOptions, 'leaseMs'>): typeof options =>
  checkOptions(options, { leaseMs });

/** @throws LockConfigurationError */
export const checkAdoptOptions = (options: Pick<LockOptions, 'leaseMs' | 'maxHoldMs' | 'renew'>): typeof options =>
  checkOptions(options, { leaseMs, maxHoldMs, renew });

const TOKEN = kindOf('a fencing token: a whole number from 0', (value) => Number.isSafeInteger(value) && value >= 0);

/** @throws LockConfigurationError */
export const checkForceReleaseOptions = (options: ForceReleaseOptions): ForceReleaseOptions =>
  checkOptions(options, { by: option(OWNER), upToToken: option(TOKEN) }, 'forceRelease()');
