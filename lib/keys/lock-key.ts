import { isWellFormed, withCodes } from '../core/key.js';
import { LockKeyError } from '../core/lock.errors.js';
import { shortened } from '../core/read-options.js';

type Fill = (values: readonly unknown[]) => string;

/** One per place in the code with the tag: JavaScript passes the same array of texts at each call. */
const fills = new WeakMap<TemplateStringsArray, Fill>();

/**
 * Makes a key, for key functions and the service: `` lockKey`sku:${sku}` ``. The values are checked and encoded like those
 * of a key template: a single value stays unchanged; several values are encoded so that different values never make the same key.
 * @throws LockKeyError
 */
export function lockKey(strings: TemplateStringsArray, ...values: KeyPart[]): string {
  const known = fills.get(strings);
  if (known) return known(values);
  const fill = compile(strings);
  fills.set(strings, fill);
  return fill(values);
}

function compile(strings: TemplateStringsArray): Fill {
  if (!Array.isArray((strings as TemplateStringsArray | undefined)?.raw)) {
    throw new LockKeyError('lockKey is a tag, got a plain call; write lockKey`sku:${sku}`, without parentheses.');
  }
  const key = strings.raw.join('${…}');
  const errorFor = (problem: string): LockKeyError => new LockKeyError(`lockKey\`${key}\`: ${problem}.`, { key });
  const texts: readonly (string | undefined)[] = strings;
  if (texts.includes(undefined)) throw errorFor('it has an invalid escape sequence; remove it');
  if (texts.length === 1 && texts[0] === '') throw errorFor('it is empty; name the protected resource');
  if (!texts.every((text) => isWellFormed(text!))) throw errorFor('it has a lone surrogate; remove it');
  const names = strings.slice(1).map((_text, index) => `value ${index + 1}`);
  const encode = valueEncoder(names, strings.slice(1, -1), (problem) =>
    errorFor(`${problem}, so different values could give one key; write ':' between them`),
  );
  return (values) =>
    strings.reduce((soFar, text, index) => {
      const value = values[index - 1];
      if (isKeyPart(value)) return soFar + encode(value) + text;
      throw errorFor(`${names[index - 1]} is ${describeValue(value)}, ${EXPECTED_PART}; pass such a value`);
    });
}

/** A value that may fill a key: it has one stable string form. */
export type KeyPart = string | number | bigint | boolean;

export const EXPECTED_PART = 'expected a non-empty string, a finite number, a bigint or a boolean';

/** Whether a value may fill a key. An empty string may not, because it identifies nothing. */
export function isKeyPart(value: unknown): value is KeyPart {
  if (typeof value === 'string') return value !== '' && isWellFormed(value);
  return Number.isFinite(value) || typeof value === 'bigint' || typeof value === 'boolean';
}

/** Describes only the kind of a value: values may be private, and error texts end up in logs. */
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

/** Makes the error for two values without a separator; `problem` has both names. */
type ErrorFor = (problem: string) => Error;

/**
 * Returns a function that encodes the values of a key, so that two different lists of values never make the same key of one
 * template. `names` are the names of the values, for error texts; `between` has the text between each value and the next.
 *
 * A single value stays unchanged: the key equals `order:${id}`. Of several values, `%` and `:` become
 * `%25` and `%3A`. If the text between two values has no `:`, its first character other than a letter or digit is also encoded;
 * if it has only letters and digits, the first one other than 0-9 and A-F is.
 * @throws what `errorFor` makes, if there is nothing between two values, or only `%`, 0-9 and A-F: no encoding
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
  // `%` comes first: the other codes contain it. Made once, because a code takes longer than all other work for a key.
  const codes = new Map(['%', ':', ...delimiters].map((char) => [char, percentCode(char)]));
  return (value) => withCodes(String(value), codes);
}

function percentCode(char: string): string {
  return Buffer.from(char).toString('hex').toUpperCase().replace(/../gu, '%$&');
}
