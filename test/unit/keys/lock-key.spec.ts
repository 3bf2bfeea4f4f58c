import * as fc from 'fast-check';
import { LockKeyError } from '../../../lib/core/lock.errors.js';
import { lockKey } from '../../../lib/index.js';
import { compileKeySpec, parseKeyTemplate } from '../../../lib/keys/key-spec.js';
import { failureOf } from './failure-of.js';

/** Values that the compiler would refuse. */
const unchecked = lockKey as (strings: TemplateStringsArray, ...values: unknown[]) => string;

describe('lockKey', () => {
  it.each<[string, string]>([
    [lockKey`sku:${'A-17'}`, 'sku:A-17'],
    [lockKey`sku:${'a:b%c'}`, 'sku:a:b%c'],
    [lockKey`${'a:b'}:${'%c'}`, 'a%3Ab:%25c'],
    [lockKey`a-${'x-y'}-${'z'}`, 'a-x%2Dy-z'],
    [lockKey`${640}x${480n}:${true}`, '640x480:true'],
    [lockKey`{order}:${'{7}'}<0>`, '{order}:{7}<0>'],
    [lockKey`a\tb:${1}`, 'a\tb:1'],
  ])('returns %j, expected %j', (key, expected) => {
    expect(key).toBe(expected);
  });

  it.each<[unknown, string]>([
    [undefined, 'undefined'],
    [{ id: 'secret' }, 'an object (Object)'],
    [Promise.resolve('secret'), 'an object (Promise)'],
  ])('refuses %p, and names the value', (value, found) => {
    const error = failureOf(() => unchecked`order:${7}:${value}`);
    expect(error.message).toContain(
      `lockKey\`order:\${…}:\${…}\`: value 2 is ${found}, expected a non-empty string, a finite number, a bigint or a boolean; `,
    );
    expect(error.message).not.toContain('secret');
    expect(error.key).toBe('order:${…}:${…}');
  });

  it('refuses adjacent values without a separator', () => {
    expect(failureOf(() => lockKey`${'a'}${'b'}`).message).toContain(
      "nothing separates value 1 and value 2, so different values could give one key; write ':' between them",
    );
    expect(failureOf(() => lockKey`${'a'}2${'b'}`).message).toContain("'2' does not separate value 1 and value 2");
  });

  it('refuses an empty text, a lone surrogate and an invalid escape', () => {
    expect(failureOf(() => lockKey``).message).toContain('lockKey``: it is empty; name the protected resource');
    expect(failureOf(() => lockKey`a\uD800:${1}`).message).toContain('it has a lone surrogate');
    expect(failureOf(() => lockKey`\unit:${1}`).message).toContain('it has an invalid escape sequence');
  });

  it.each([[undefined], [7], ['sku'], [['sku:', '']]])(
    'explains that it is a tag when it is called with %j',
    (wrong) => {
      const error = failureOf(() => (lockKey as (...args: unknown[]) => string)(wrong, 'A-17'));
      expect(error.message).toBe('lockKey is a tag, got a plain call; write lockKey`sku:${sku}`, without parentheses.');
    },
  );

  it('may be the result of a key function, and its error is that of the call', () => {
    const keyOf = compileKeySpec((order: { id: string }) => lockKey`order:${order.id}`, 'Orders.charge');
    expect(keyOf(undefined, [{ id: 'a:b' }])).toBe('order:a:b');
    expect(() => keyOf(undefined, [{}])).toThrow(LockKeyError);
  });

  const literal = fc.string({ unit: fc.constantFrom(':', '-', '%', '2', 'x', ' ', 'é', '😀'), maxLength: 3 });
  const value = fc.oneof(fc.string({ unit: 'grapheme', minLength: 1, maxLength: 4 }), fc.integer(), fc.boolean());
  const filled = fc.integer({ min: 0, max: 3 }).chain((count) =>
    fc.record({
      literals: fc.array(literal, { minLength: count + 1, maxLength: count + 1 }),
      values: fc.array(value, { minLength: count, maxLength: count }),
    }),
  );

  it('returns the key of a template with the same texts and values, and refuses what the template refuses', () => {
    const resultOf = (work: () => string): string => {
      try {
        return work();
      } catch (error) {
        if (error instanceof LockKeyError) return 'refused';
        throw error;
      }
    };
    fc.assert(
      fc.property(filled, ({ literals, values }) => {
        const strings = Object.assign([...literals], { raw: literals });
        const template = literals.reduce((soFar, part, index) => `${soFar}<${index - 1}>${part}`);
        expect(resultOf(() => lockKey(strings, ...values))).toBe(resultOf(() => parseKeyTemplate(template)(values)));
      }),
      { numRuns: 2_000 },
    );
  });
});
