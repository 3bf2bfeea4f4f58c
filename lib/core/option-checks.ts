import { isWellFormed, quoted } from './key.js';
import { LockConfigurationError } from './lock.errors.js';
import { refuse } from './read-options.js';

export const MAX_PERMITS = 100_000;
const MAX_OWNER_LENGTH = 128;
const MAX_NOTE_BYTES = 256;

/** @throws LockConfigurationError */
export function checkBoolean(value: unknown, where: string): void {
  if (typeof value !== 'boolean') refuse(where, value, 'true or false');
}

/**
 * Checks a number of holders, or of waiters.
 * @throws LockConfigurationError
 */
export function checkWhole(value: unknown, where: string, { min, max }: { min: number; max: number }): void {
  if (Number.isSafeInteger(value) && (value as number) >= min && (value as number) <= max) return;
  refuse(where, value, `a whole number from ${min} to ${max}`);
}

/**
 * Checks a number of permits: how many there are, or how many a call takes.
 * @throws LockConfigurationError
 */
export const checkPermits = (value: unknown, where: string): void =>
  checkWhole(value, where, { min: 1, max: MAX_PERMITS });

/**
 * Checks the name of a holder.
 * @throws LockConfigurationError
 */
export function checkOwner(value: unknown, where: string): void {
  const valid = typeof value === 'string' && value.length > 0 && value.length <= MAX_OWNER_LENGTH;
  if (!valid || !isWellFormed(value)) {
    refuse(where, value, `a well-formed string of 1 to ${MAX_OWNER_LENGTH} characters`);
  }
}

/**
 * Checks a label for people.
 * @throws LockConfigurationError
 */
export function checkNote(value: unknown, where: string): void {
  if (typeof value !== 'string' || !isWellFormed(value) || Buffer.byteLength(value) > MAX_NOTE_BYTES) {
    refuse(where, value, `a well-formed string of at most ${MAX_NOTE_BYTES} bytes`);
  }
}

/**
 * Checks that a call takes no more permits than there are: it would wait for ever.
 * @throws LockConfigurationError
 */
export function checkFits({
  take,
  permits,
  perInstance,
}: { readonly [name in 'permits' | 'perInstance' | 'take']?: number } & object): void {
  if (take === undefined) return;
  for (const [name, limit] of Object.entries({ permits, perInstance })) {
    if (limit !== undefined && take > limit) refuse('take', take, `at most \`${name}\`, which is ${limit}`);
  }
}

/**
 * Checks how many permits a key is to have from now on.
 * @throws LockConfigurationError
 */
export function checkSetPermits(value: unknown): void {
  if (value !== null && (!Number.isSafeInteger(value) || (value as number) < 0 || (value as number) > MAX_PERMITS)) {
    refuse(
      'permits',
      value,
      `a whole number from 0 (no reader gets in) to ${MAX_PERMITS}, or null (the calls say it again)`,
    );
  }
}

/** What a decorated call does when Redis cannot be asked. */
export type OnUnavailable = 'fail' | 'skip' | 'run-unlocked';

/** @throws LockConfigurationError unless it is a value of `onUnavailable` */
export function checkOnUnavailable(value: unknown): void {
  if (!['fail', 'skip', 'run-unlocked'].includes(value as string)) {
    refuse('onUnavailable', value, "'fail', 'skip' or 'run-unlocked'");
  }
}

/**
 * Checks the name of a connection; the default one has none.
 * @throws LockConfigurationError
 */
export function checkConnectionName(name: unknown, where: string): void {
  if (name !== undefined && (typeof name !== 'string' || name === ''))
    refuse(where, name, 'a non-empty string or left out');
}

/**
 * Checks the prefix of all keys in Redis.
 * @throws LockConfigurationError
 */
export function checkKeyPrefix(keyPrefix: unknown): void {
  const valid = typeof keyPrefix === 'string' && keyPrefix.length > 0 && keyPrefix.length <= 128;
  if (valid && !/[{}\p{Surrogate}]/u.test(keyPrefix)) return;
  const expected = 'a string of 1 to 128 characters without braces';
  if (typeof keyPrefix !== 'string') refuse('keyPrefix', keyPrefix, expected);
  const advice = /[{}]/.test(keyPrefix) ? ' To put keys into one slot of a cluster, use the option `hashTag`.' : '';
  throw new LockConfigurationError(`Expected \`keyPrefix\` to be ${expected}, got ${quoted(keyPrefix)}.${advice}`);
}

/**
 * Checks a duration in milliseconds; `orElse` names other values that are allowed, for the error text.
 * @throws LockConfigurationError
 */
export function checkDuration(value: unknown, where: string, range: { min: number; max: number }, orElse = ''): void {
  const whole = Number.isSafeInteger(value) || (value === Infinity && range.max === Infinity);
  if (whole && (value as number) >= range.min && (value as number) <= range.max) return;
  const days = range.max / 86_400_000;
  const to = range.max === Infinity ? 'up, or Infinity' : `to ${range.max}${days > 1 ? ` (${days} days)` : ''}`;
  refuse(where, value, `${orElse}a whole number of milliseconds from ${range.min} ${to}`);
}

const SIGNAL_METHODS = ['addEventListener', 'removeEventListener', 'throwIfAborted'] as const;

/** @throws LockConfigurationError */
export function checkSignal(value: unknown, where: string): void {
  if (!isSignal(value as Partial<AbortSignal> | null)) refuse(where, value, 'an AbortSignal');
}

function isSignal(value: Partial<AbortSignal> | null): boolean {
  try {
    return SIGNAL_METHODS.every((name) => typeof value?.[name] === 'function');
  } catch {
    return false;
  }
}
