import { isWellFormed } from '../core/key.js';
import { LockKeyError } from '../core/lock.errors.js';
import { describeValue, EXPECTED_PART, isKeyPart, type KeyPart, valueEncoder } from './key-part.js';

type Fill = (values: readonly unknown[]) => string;

/** One for each place in the code with the tag: JavaScript passes the same array of texts at each call. */
const fills = new WeakMap<TemplateStringsArray, Fill>();

/**
 * Makes a key, for key functions and the service: `` lockKey`sku:${sku}` ``. The values are checked and encoded like those
 * of a key template: a single value stays as it is, and of several, different values never make the same key.
 * @throws LockKeyError for `undefined`, `null`, `NaN`, an object, an empty string, and for values that nothing separates
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
  if (texts.includes(undefined)) throw errorFor('it has an escape that JavaScript does not know; remove it');
  if (texts.length === 1 && texts[0] === '') throw errorFor('it is empty; write what is protected');
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
