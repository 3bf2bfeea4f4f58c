import * as fc from 'fast-check';
import { LockKeyError } from '../../../lib/core/lock.errors.js';
import { parseKeyTemplate } from '../../../lib/keys/key-spec.js';
import { failureOf } from './failure-of.js';

const fill = (template: string, ...args: unknown[]) => parseKeyTemplate(template)(args);

describe('filling a key template', () => {
  class Customer {
    constructor(private readonly number: number) {}
    get id(): string {
      return `c${this.number}`;
    }
  }

  it.each<[string, unknown[], string]>([
    ['orders', [], 'orders'],
    ['order:<0>', ['A-17'], 'order:A-17'],
    ['order:<0.id>:<1>', [{ id: 'A-17' }, 2], 'order:A-17:2'],
    ['<1>:<0>:<1>', ['a', 'b'], 'b:a:b'],
    ['city:<1.address.city>', ['a', { address: { city: 'Brno' } }], 'city:Brno'],
    ['item:<0.items.0>', [{ items: ['a', 'b'] }], 'item:a'],
    ['arg:<10>', Array.from({ length: 11 }, (_, index) => index), 'arg:10'],
    ['length:<0.length>', ['abc'], 'length:3'],
    ['customer:<0.id>', [new Customer(7)], 'customer:c7'],
    ['e-mail:<0>', ['ann@example.org/a b'], 'e-mail:ann@example.org/a b'],
  ])('%s with %j gives %s', (template, args, key) => {
    expect(fill(template, ...args)).toBe(key);
  });

  it.each<[string, string]>([
    ['a > b', 'a > b'],
    ['a << b', 'a < b'],
    ['<<0>', '<0>'],
    ['<<<<0>', '<<0>'],
    ['<0>>', 'x>'],
    ['<0><<', 'x<'],
    ['%3A:<0>', '%3A:x'],
  ])('writes the literal text of %s as %s', (template, key) => {
    expect(fill(template, 'x')).toBe(key);
  });

  it.each<[unknown, string]>([
    ['0', '0'],
    [-0, '0'],
    [1e21, '1e+21'],
    [10n ** 20n, '100000000000000000000'],
    [true, 'true'],
  ])('encodes the value %p as %s', (value, text) => {
    expect(fill('v:<0>', value)).toBe(`v:${text}`);
  });
});

describe('a value that cannot be part of a key', () => {
  class Order {
    id = 'secret';
  }

  it.each<[unknown, string]>([
    [undefined, 'undefined'],
    [null, 'null'],
    ['', 'an empty string'],
    ['a\uD800', 'a string with a lone surrogate'],
    ['\uDE00\uD83D', 'a string with a lone surrogate'],
    [Number.NaN, 'NaN'],
    [Number.POSITIVE_INFINITY, 'Infinity'],
    [Symbol('s'), 'a symbol'],
    [() => 'a', 'a function'],
    [new Date(0), 'an object (Date)'],
    [{}, 'an object (Object)'],
    [new Order(), 'an object (Order)'],
    [Object.create(null), 'an object'],
    [JSON.parse('{"constructor":{"name":"forged"},"__proto__":{"constructor":null}}'), 'an object (Object)'],
  ])('is refused: %p is reported as %s', (value, found) => {
    const error = failureOf(() => fill('order:<0.id>', { id: value }));
    expect(error.message).toContain(`key template 'order:<0.id>': <0.id> is ${found}, expected a non-empty string`);
    expect(error.message).not.toContain('secret');
    expect(error.key).toBe('order:<0.id>');
  });

  it.each<[unknown, string]>([
    [undefined, 'pass it (a default value of a parameter is not seen here), or use a key function.'],
    [{}, "name one of its properties, as in '<0.id>', or use a key function."],
    [Number.NaN, 'pass such a value, or use a key function.'],
  ])('is reported with a fix: %p', (value, fix) => {
    expect(failureOf(() => fill('order:<0>', value)).message.endsWith(`; ${fix}`)).toBe(true);
  });

  it('is refused when the argument is missing', () => {
    expect(failureOf(() => fill('order:<1>', 'a')).message).toContain('<1> is undefined');
  });

  it.each<[unknown, string]>([
    [{}, '<0.guest.address.city> cannot be read, since <0.guest> is undefined;'],
    [{ guest: null }, '<0.guest.address.city> cannot be read, since <0.guest> is null;'],
    [{ guest: {} }, '<0.guest.address.city> cannot be read, since <0.guest.address> is undefined;'],
    [undefined, '<0.guest.address.city> cannot be read, since <0> is undefined;'],
  ])('is refused when a property on the way to it is missing: %j', (order, text) => {
    expect(failureOf(() => fill('city:<0.guest.address.city>', order)).message).toContain(text);
  });

  it('is read once per call, as plain property access', () => {
    let reads = 0;
    const order = {
      get id(): number {
        return ++reads;
      },
    };
    expect(fill('order:<0.id>', order)).toBe('order:1');
    expect(reads).toBe(1);
  });

  it('passes the error of its getter', () => {
    const error = new RangeError('detached');
    const order = {
      get id(): string {
        throw error;
      },
    };
    expect(() => fill('order:<0.id>', order)).toThrow(error);
  });
});

describe('a bad key template', () => {
  it.each<[string, string]>([
    [
      '',
      "the key template is an empty string, expected a text that names the protected resource; write one, such as 'order:<0.id>'.",
    ],
    ['order:<0', "key template 'order:<0': '<0' is not closed; add the '>', or write '<<' for a literal '<'."],
    ['a:<0>:<', "key template 'a:<0>:<': '<' is not closed;"],
    ['a<<<', "key template 'a<<<': '<' is not closed;"],
    ['a\uD800:<0>', 'it has a lone surrogate; expected well-formed text, so remove it.'],
    ['<0><1>', "nothing separates <0> and <1>, so different arguments could give one key; write ':' between them."],
    ['<0>2<1>', "'2' does not separate <0> and <1>, so different arguments could give one key;"],
    ['<0>%3A<1>', "'%3A' does not separate <0> and <1>"],
  ])('%j throws when it is parsed: %s', (template, text) => {
    expect(failureOf(() => parseKeyTemplate(template)).message).toContain(text);
  });

  it.each([
    ['order:${id}', '${id}'],
    ['order:{0}', '{0}'],
    ['order:#{id}', '#{id}'],
    ['order:{{id}}', '{'],
    ['{order}:<0>', '{order}'],
    ['order:<0>:{', '{'],
    ['order:<0.{id}>', '{id}'],
  ])('throws when it is parsed and looks like a filled template: %s', (template, braces) => {
    const error = failureOf(() => parseKeyTemplate(template, 'OrdersService.charge'));
    expect(error.message).toBe(
      `OrdersService.charge: key template '${template}': '${braces}' fills nothing; write '<0>' for the first argument, ` +
        "'<0.id>' for a property of it, or use a key function for a key with braces.",
    );
    expect(error.key).toBe(template);
  });

  // prettier-ignore
  it.each([
    '<>', '<a>', '<this.id>', '<0.>', '<0..id>', '<.id>', '<-1>', '<+1>', '<1e3>', '<00>', '<01>', '<0[1]>',
    '< 0>', '<0 >', '<0. id>', '<0.a b>', '<0\n>', '<0<1>', '<0.<1>', '<0<<1>',
  ])('throws when it contains the malformed placeholder %j', (wrong) => {
    const text = `'${wrong}' is not a placeholder; expected the index of an argument, then properties after dots, as in`;
    expect(failureOf(() => parseKeyTemplate(`order:${wrong}`)).message).toContain(text);
  });

  it.each<[any, string]>([
    [undefined, 'undefined'],
    [7, '7'],
    [{}, 'an object (Object)'],
    [Symbol('s'), 'a symbol'],
  ])('is refused when it is not a string: %p', (wrong, found) => {
    expect(failureOf(() => parseKeyTemplate(wrong)).message).toContain(`the key template is ${found}, expected a text`);
  });
});

describe('the encoding of values', () => {
  it.each<[string, unknown[], string]>([
    ['order:<0>', ['a:b%c'], 'order:a:b%c'],
    ['%3A-<0>%', ['a:b%c'], '%3A-a:b%c%'],
    ['<0>:<0>', ['a:b%c'], 'a%3Ab%25c:a%3Ab%25c'],
    ['<0>:<1>', ['x:y', 'z'], 'x%3Ay:z'],
    ['<0>-to:<1>', ['x-y', 'to'], 'x-y-to:to'],
    ['a-<0>-<1>', ['x-y', 'z'], 'a-x%2Dy-z'],
    ['<0>-a', ['x-y'], 'x-y-a'],
    ['<0> and <1>', ['n d', 'a'], 'n%20d and a'],
    ['<0>and/<1>', ['and', '/'], 'andand/%2F'],
    ['<0>x<1>', ['640', '480'], '640x480'],
    ['<0>x<1>', ['axb', 'X'], 'a%78bxX'],
    ['<0>Ax<1>', ['Ax', 'x'], 'A%78Ax%78'],
    ['<0>é<1>', ['é', 'e'], '%C3%A9ée'],
    ['<0>😀<1>', ['😀', '😁'], '%F0%9F%98%80😀😁'],
    ['<0>\n<1>', ['\n', 'n'], '%0A\nn'],
    ['<0>]<1>^<2>', [']', '^', '\\-'], '%5D]%5E^\\-'],
    ['<0><<<1>', ['<', '>'], '%3C<>'],
  ])('%s with %j gives %s', (template, args, key) => {
    expect(fill(template, ...args)).toBe(key);
  });
});

/** Literal texts and values made of the characters that are most likely to be confused: separators and percent codes. */
const nasty = fc.constantFrom(':', '-', '%', '2', 'D', '3', 'A', 'x', '<', '>', ' ', 'é', '😀', '\n');
const literal = fc.string({ unit: nasty, maxLength: 3 });
const value = fc.oneof(
  fc.string({ unit: nasty, minLength: 1, maxLength: 4 }),
  fc.string({ unit: 'grapheme', minLength: 1, maxLength: 6 }),
  fc.integer(),
  fc.boolean(),
);

/** A template of `literals` with a placeholder after each but the last; undefined where it is refused as ambiguous. */
function templateOf(literals: readonly string[]) {
  const text = literals
    .map((part) => part.replaceAll('<', '<<'))
    .reduce((soFar, part, index) => `${soFar}<${index - 1}>${part}`);
  try {
    return parseKeyTemplate(text);
  } catch (error) {
    if (error instanceof LockKeyError && error.message.includes('separate')) return undefined;
    throw error;
  }
}

const filled = fc.integer({ min: 1, max: 4 }).chain((count) =>
  fc.record({
    literals: fc.array(literal, { minLength: count + 1, maxLength: count + 1 }),
    one: fc.array(value, { minLength: count, maxLength: count }),
  }),
);

/**
 * Reads the values back from a key. If this works for every template and all values, no two
 * lists of values share a key. It follows the rule in the docs, not the code.
 */
function valuesOf(key: string, literals: readonly string[]): string[] {
  const inner = literals.slice(1, -1);
  let rest = key.slice(literals[0]?.length, key.length - (literals.at(-1)?.length ?? 0));
  const values = inner.map((text) => {
    const delimiter = /:/u.exec(text) ?? /[^\p{L}\p{N}%]/u.exec(text) ?? /[^0-9A-F%]/u.exec(text);
    const end = rest.indexOf(delimiter?.[0] ?? '') - (delimiter?.index ?? 0);
    const encoded = rest.slice(0, end);
    rest = rest.slice(end + text.length);
    return encoded;
  });
  return inner.length === 0 ? [rest] : [...values, rest].map(decodeURIComponent);
}

describe('two different lists of values', () => {
  it('never give the same key, since the values of any key can be decoded', () => {
    fc.assert(
      fc.property(filled, ({ literals, one }) => {
        const template = templateOf(literals);
        fc.pre(template !== undefined);
        expect(valuesOf(template(one), literals)).toEqual(one.map(String));
      }),
      { numRuns: 5_000 },
    );
  });
});
