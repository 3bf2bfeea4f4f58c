import * as fc from 'fast-check';

/** A value under a name: a report can print the name even if the value throws when it is read. */
export class Named {
  constructor(
    readonly name: string,
    /** Makes a new value each time: a case may change it. */
    readonly make: () => unknown,
  ) {}

  get [fc.toStringMethod](): () => string {
    return () => this.name;
  }
}

const boom = (): never => {
  throw new RangeError('thrown by the value');
};

function cyclic(): unknown {
  const one: Record<string, unknown> = {};
  one['self'] = one;
  return one;
}

function revoked(): unknown {
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  return proxy;
}

const THROWS: ProxyHandler<object> = { get: boom, has: boom, ownKeys: boom, getPrototypeOf: boom };

const nested = (depth: number): unknown => Array.from({ length: depth }).reduce((inner) => [inner], 1);

const ODD: Readonly<Record<string, () => unknown>> = {
  undefined: () => undefined,
  null: () => null,
  NaN: () => Number.NaN,
  Infinity: () => Number.POSITIVE_INFINITY,
  '-Infinity': () => Number.NEGATIVE_INFINITY,
  '-0': () => -0,
  '2 ** 53': () => 2 ** 53,
  '1e300': () => 1e300,
  'a bigint': () => 1_000n,
  'a number in a string': () => '1000',
  'an empty string': () => '',
  'a blank': () => ' ',
  'a lone surrogate': () => 'a\uD800b',
  'a NUL': () => 'a\0b',
  'a line break': () => 'a\r\nb',
  braces: () => '{a}b}{%',
  'a long string': () => 'x'.repeat(100_000),
  'a symbol': () => Symbol('odd'),
  'a well-known symbol': () => Symbol.iterator,
  'a boxed number': () => Object(1_000),
  'a boxed string': () => Object('a'),
  'a date': () => new Date(0),
  'an invalid date': () => new Date(Number.NaN),
  'an object': () => ({}),
  'a frozen object': () => Object.freeze({ leaseMs: 1_000 }),
  'an object without a prototype': () => Object.create(null),
  'an object with a bare prototype': () => Object.create(Object.create(null) as object),
  'an object with another constructor': () => ({ constructor: null }),
  'a cyclic object': cyclic,
  'an object with a text': () => ({ toString: () => 'a', valueOf: () => 1_000 }),
  'an object whose text throws': () => ({ toString: boom, valueOf: boom, [Symbol.toPrimitive]: boom, toJSON: boom }),
  'an object with getters that throw': () => Object.defineProperty({}, 'id', { get: boom, enumerable: true }),
  'a proxy that throws': () => new Proxy({}, THROWS),
  'a function proxy that throws': () => new Proxy(() => 1, { ...THROWS, apply: boom }),
  'a revoked proxy': revoked,
  'an array': () => [1_000],
  'an empty array': () => [],
  'an array with holes': () => Array.from<unknown>({ length: 3 }).fill(1, 0, 1),
  'a nested array': () => nested(1_000),
  'a huge sparse array': () => Object.assign([], { length: 4_294_967_295 }),
  'a function': () => () => 1_000,
  'a function that throws': () => boom,
  'an async function': () => async () => 1_000,
  'a class': () => class Odd {},
  'a promise': () => Promise.resolve(1_000),
  // oxlint-disable-next-line unicorn/no-thenable
  'a thenable': () => ({ then: (resolve: (value: number) => void) => resolve(1_000) }),
  'an error': () => new Error('odd'),
  'a map': () => new Map([['leaseMs', 1_000]]),
  'a buffer': () => Buffer.from('a'),
  'a regular expression': () => /a/u,
  true: () => true,
  false: () => false,
};

export const named = (values: Readonly<Record<string, () => unknown>>): fc.Arbitrary<Named> =>
  fc.constantFrom(...Object.entries(values).map(([name, make]) => new Named(name, make)));

/** Unexpected values. */
export const oddValue = named(ODD);

const plain = (value: unknown): Named => new Named(fc.stringify(value), () => value);

/** Plain values of all types, including some near the limits. */
const plainValue: fc.Arbitrary<Named> = fc
  .oneof(
    fc.integer(),
    fc.maxSafeInteger(),
    fc.double(),
    fc.bigInt(),
    fc.boolean(),
    fc.string({ maxLength: 200 }),
    fc.string({ unit: 'binary', maxLength: 200 }),
    fc.anything({ maxDepth: 2 }),
  )
  .map(plain);

export const anyValue: fc.Arbitrary<Named> = fc.oneof(oddValue, plainValue);

/** A few values that are right, and others around them. */
export const oneOf = (...values: readonly unknown[]): fc.Arbitrary<Named> => fc.constantFrom(...values.map(plain));
