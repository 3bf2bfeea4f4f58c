import { isWellFormed, withCodes } from '../core/key.js';
import { shortened } from '../core/read-options.js';

/** A value that may fill a key: it has one stable string form. */
export type KeyPart = string | number | bigint | boolean;

/** The values that may fill a key, for error texts. */
export const EXPECTED_PART = 'expected a non-empty string, a finite number, a bigint or a boolean';

/** Whether a value may fill a key. An empty string may not, since it names nothing. */
export function isKeyPart(value: unknown): value is KeyPart {
  if (typeof value === 'string') return value !== '' && isWellFormed(value);
  return Number.isFinite(value) || typeof value === 'bigint' || typeof value === 'boolean';
}

/** Describes a value by its kind only: values may be private, and error texts end up in logs. */
export function describeValue(value: unknown): string {
  if (typeof value === 'string') return value === '' ? 'an empty string' : 'a string with a lone surrogate';
  if (typeof value === 'symbol' || typeof value === 'function') return `a ${typeof value}`;
  if (typeof value !== 'object' || value === null) return String(value);
  // From the prototype, because an own `constructor` may come from a request body.
  const type = typeNameOf(value);
  return typeof type === 'string' && type !== '' ? `an object (${shortened(type)})` : 'an object';
}

function typeNameOf(value: object): unknown {
  try {
    return Object.getPrototypeOf(value)?.constructor?.name;
  } catch {
    return undefined;
  }
}

/** The characters that may separate values, the best first; never one that occurs in percent codes (`%`, 0-9, A-F). */
const DELIMITERS = [/:/u, /[^\p{L}\p{N}%]/u, /[^0-9A-F%]/u];

/** Makes the error for two values that nothing separates; `problem` has the names of both. */
type ErrorFor = (problem: string) => Error;

/**
 * Returns a function that encodes the values of a key, so that two different lists of values never make the same key of one
 * template. `names` are the names of the values, for error texts; `between` has the text between each value and the next.
 *
 * A single value stays as it is: the key is the one that `order:${id}` gives by hand. Of several values, `%` and `:` become
 * `%25` and `%3A`. If the text between two values has no `:`, its first character that is no letter or digit is encoded, too;
 * if it has only letters and digits, the first one that is not 0-9 or A-F is.
 * @throws what `errorFor` makes, if there is nothing between two values, or nothing but `%`, 0-9 and A-F: no encoding
 *   separates them
 */
export function valueEncoder(
  names: readonly string[],
  between: readonly string[],
  errorFor: ErrorFor,
): (value: KeyPart) => string {
  if (names.length < 2) return String;
  const delimiters = between.map((text, index) => {
    const found = DELIMITERS.map((kind) => kind.exec(text)?.[0]).find((char) => char !== undefined);
    if (found !== undefined) return found;
    const pair = `${names[index]} and ${names[index + 1]}`;
    throw errorFor(text === '' ? `nothing separates ${pair}` : `'${text}' does not separate ${pair}`);
  });
  // `%` comes first: it is in the codes of the others. To make a code takes longer than all else that is done for a key.
  const codes = new Map(['%', ':', ...delimiters].map((char) => [char, percentCode(char)]));
  return (value) => withCodes(String(value), codes);
}

function percentCode(char: string): string {
  return Buffer.from(char).toString('hex').toUpperCase().replace(/../gu, '%$&');
}
