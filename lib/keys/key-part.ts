import { isWellFormed } from '../core/key.js';

/** What may stand in a key: something with one stable string form. */
export type KeyPart = string | number | bigint | boolean;

/** What a value has to be that fills a key, for people. */
export const EXPECTED_PART = 'expected a non-empty string, a finite number, a bigint or a boolean';

/** Whether a value may fill a key: an empty text would, but names nothing. */
export function isKeyPart(value: unknown): value is KeyPart {
  if (typeof value === 'string') return value !== '' && isWellFormed(value);
  return Number.isFinite(value) || typeof value === 'bigint' || typeof value === 'boolean';
}

/** What was found, by its kind only: values may be private, and an error text ends in logs. */
export function describeValue(value: unknown): string {
  if (typeof value === 'string') return value === '' ? 'an empty string' : 'a string with a lone surrogate';
  if (typeof value === 'symbol' || typeof value === 'function') return `a ${typeof value}`;
  if (typeof value !== 'object' || value === null) return String(value);
  // From the prototype, because an own `constructor` may come from a request body.
  const type: unknown = Object.getPrototypeOf(value)?.constructor?.name;
  return typeof type === 'string' && type !== '' ? `an object (${type})` : 'an object';
}

/** Which character ends a value, the most welcome first; never one of which percent codes are made (`%`, 0-9, A-F). */
const DELIMITERS = [/:/u, /[^\p{L}\p{N}%]/u, /[^0-9A-F%]/u];

/** Makes the error for two values that nothing separates: the names of both, and why. */
type Fault = (problem: string) => Error;

/**
 * Gives what encodes the values of a key, so that two different lists of values never give one key. `names` are those of
 * the values, for people; `between`: the texts that stand between each value and the next.
 *
 * `%` and `:` inside a value become `%25` and `%3A`. Where the text between two values has no `:`, its first character that
 * is no letter or digit is encoded too; where it has only letters and digits, the first one that is not 0-9 or A-F is.
 * @throws what `fault` makes, where nothing is between two values, or nothing but `%`, 0-9 and A-F: no encoding
 *   separates them
 */
export function valueEncoder(
  names: readonly string[],
  between: readonly string[],
  fault: Fault,
): (value: KeyPart) => string {
  const delimiters = between.map((text, index) => {
    const found = DELIMITERS.map((kind) => kind.exec(text)?.[0]).find((char) => char !== undefined);
    if (found !== undefined) return found;
    const pair = `${names[index]} and ${names[index + 1]}`;
    throw fault(text === '' ? `nothing separates ${pair}` : `'${text}' does not separate ${pair}`);
  });
  const codes = new Set(['%', ':', ...delimiters].map((char) => `\\u{${char.codePointAt(0)?.toString(16)}}`));
  const encoded = new RegExp(`[${[...codes].join('')}]`, 'gu');
  return (value) => String(value).replace(encoded, percentCode);
}

function percentCode(char: string): string {
  return Buffer.from(char).toString('hex').toUpperCase().replace(/../gu, '%$&');
}
