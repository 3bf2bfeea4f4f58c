import { createHash } from 'node:crypto';
import { LockKeyError } from './lock.errors.js';

const MAX_KEY_BYTES = 1_024;
const MAX_KEYS = 16;
const MAX_JOB_LENGTH = 128;
const KEPT_JOB_LENGTH = 96;

/** Whether a text is the same after a round trip through UTF-8. */
export const isWellFormed = (text: string): boolean => text.isWellFormed();

/**
 * Percent-encodes `%`, `{` and `}`: injective, and never an accidental hash tag of a cluster (`a` and `{a}` are two
 * locks).
 */
export const encodeKey = (key: string): string => (/[%{}]/.test(key) ? withCodes(key, CODES) : key);

const CODES = new Map([
  ['%', '%25'],
  ['{', '%7B'],
  ['}', '%7D'],
]);

/** Replaces each of these characters by its code. Most texts have none of them. */
export function withCodes(text: string, codes: ReadonlyMap<string, string>): string {
  for (const [char, code] of codes) if (text.includes(char)) text = text.replaceAll(char, code);
  return text;
}

const NO_TAG = (): string => '';

/**
 * Returns a key as it is stored, without the prefix of the module. `tagOf` returns the hash tag to put in front of it, if any.
 * @throws LockKeyError when the key is empty, ill-formed or, as it is stored, too long
 */
export function storedKey(key: string, tagOf: (key: string) => string = NO_TAG): string {
  checkKeyText(key);
  const stored = tagOf(key) + encodeKey(key);
  const bytes = Buffer.byteLength(stored);
  if (bytes <= MAX_KEY_BYTES) return stored;
  const text = `Expected a lock key of at most ${MAX_KEY_BYTES} bytes, got ${bytes}: ${quoted(key)}.`;
  throw new LockKeyError(`${text} Use an id or a hash of the long part.`, { key });
}

/** A key for error texts, cut if it is long. */
export const quoted = (key: string): string => JSON.stringify(key.length > 40 ? `${key.slice(0, 40)}…` : key);

/**
 * Returns a key if it is a non-empty text.
 * @throws LockKeyError
 */
export function checkedKey(key: unknown): string {
  if (typeof key === 'string' && key !== '') return key;
  const got = key === '' ? 'an empty one' : typeof key;
  throw new LockKeyError(`Expected a lock key to be a non-empty string, got ${got}.`);
}

function checkKeyText(key: string): void {
  if (isWellFormed(checkedKey(key))) return;
  const text = `The lock key ${quoted(key)} contains half of a surrogate pair, which Redis would confuse with others.`;
  throw new LockKeyError(`${text} Cut strings between characters.`, { key });
}

/**
 * The keys of one acquisition with their stored names, sorted by the bytes of these names. The order is the same for every
 * client, so calls cannot wait for each other in a circle.
 * @throws LockKeyError when there are too many
 */
export function inOrder(keys: readonly string[], storageKey: (key: string) => string): [stored: string, key: string][] {
  const named = new Map(keys.map((key) => [storageKey(key), key]));
  if (named.size > MAX_KEYS) {
    const text = `Expected at most ${MAX_KEYS} keys in one acquisition, got ${named.size}.`;
    throw new LockKeyError(
      `${text} Lock what they have in common instead, or nest calls in the byte order of the keys.`,
      { key: keys.join(', ') },
    );
  }
  return [...named].sort(([a], [b]) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
}

/** Whether a class got its name from a minifier, from Nest's `mixin()` (21 hexadecimal digits), or has none. */
export const isGeneratedName = (name: string): boolean => /^(?:[\w$]{0,2}|[\da-f]{21})$/u.test(name);

/** The name under which a store knows a job: `Class.method`, or the option `job`. A very long name is cut, and ends with a hash of all of it. */
export function jobName(where: string): string {
  if (where.length <= MAX_JOB_LENGTH && isWellFormed(where)) return where;
  const hash = createHash('sha256').update(where, 'utf16le').digest('base64url').slice(0, 22);
  // The cut may split a character; the round trip through UTF-8 repairs that.
  return `${Buffer.from(where.slice(0, KEPT_JOB_LENGTH)).toString()}~${hash}`;
}
