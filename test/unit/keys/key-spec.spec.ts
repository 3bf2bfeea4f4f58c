import { LockKeyError } from '../../../lib/core/lock.errors.js';
import { compileKeySpec, describeKeySpec, type KeySpec } from '../../../lib/keys/key-spec.js';

const WHERE = 'OrdersService.charge';
const compile = (spec: KeySpec) => compileKeySpec(spec, WHERE);
const returning = (result: any) => compile(() => result);

describe('a key spec', () => {
  it('returns one key for a template', () => {
    expect(compile('order:<0.id>')(undefined, [{ id: 'A-17' }])).toBe('order:A-17');
  });

  it('returns a list of keys for a list of templates, in its order', () => {
    const keyOf = compile(['acct:<1>', 'acct:<0>', 'ledger']);
    expect(keyOf(undefined, ['a', 'b'])).toEqual(['acct:b', 'acct:a', 'ledger']);
  });

  it('is read once, so that later changes to a list have no effect', () => {
    const list = ['acct:<0>'];
    const keyOf = compile(list);
    list.push('other');
    expect(keyOf(undefined, [7])).toEqual(['acct:7']);
  });

  it.each([
    ['a bad template', 'order:<0'],
    ['a bad template in a list', ['orders', 'order:<a>']],
    ['an empty list', []],
    ['no key at all', undefined],
    ['a number', 7],
  ])('throws when compiled with %s, and names the method', (_what, spec: any) => {
    expect(() => compile(spec)).toThrow(LockKeyError);
    expect(() => compile(spec)).toThrow(/^OrdersService\.charge: /u);
  });

  it('names the method when a template cannot be filled', () => {
    expect(() => compile('order:<0>')(undefined, [])).toThrow(/^OrdersService\.charge: .*<0> is undefined/u);
  });
});

describe('a key function', () => {
  it('is called with the arguments of the call and the instance as `this`', () => {
    const keyOf = compile(function (this: { tenant: string }, id: string, step: number) {
      return `${this.tenant}:${id}:${step}`;
    });
    expect(keyOf({ tenant: 'eu' }, ['A-17', 2])).toBe('eu:A-17:2');
  });

  it('copies its list', () => {
    const list = ['a', 'b'];
    const keys = returning(list)(undefined, []);
    list.length = 0;
    expect(keys).toEqual(['a', 'b']);
  });

  it.each([
    ['', 'an empty string'],
    [undefined, 'undefined'],
    [7, 'a value of type number'],
    [{ key: 'a' }, 'a value of type object'],
    [Promise.resolve('a'), 'a promise'],
    [[], 'an empty list'],
    [['a', ''], 'a list whose item 1 is an empty string'],
    [Array.from({ length: 2 }), 'a list whose item 0 is undefined'],
  ])('is refused with a message that names the result when it returns %p', (result, found) => {
    const text = `${WHERE}: the key function returned ${found}, expected a non-empty string or a non-empty list of them`;
    expect(() => returning(result)(undefined, [])).toThrow(LockKeyError);
    expect(() => returning(result)(undefined, [])).toThrow(text);
  });

  it('passes its own error when it throws', () => {
    const error = new RangeError('no such order');
    const keyOf = compile(() => {
      throw error;
    });
    expect(() => keyOf(undefined, [])).toThrow(error);
  });
});

describe('the label of a key spec', () => {
  function keyOfOrder(): string {
    return 'a';
  }

  it.each<[KeySpec, string]>([
    ['order:<0.id>', 'order:<0.id>'],
    [['acct:<0>', 'acct:<1>'], 'acct:<0>, acct:<1>'],
    [keyOfOrder, 'keyOfOrder'],
    [() => 'a', 'key function'],
  ])('of %p is %s', (spec, label) => {
    expect(describeKeySpec(spec)).toBe(label);
  });
});
