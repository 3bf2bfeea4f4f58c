import * as fc from 'fast-check';

/** Ways to pass the same options; `moody` ones have another value each time they are read. */
const SHAPES = ['plain', 'frozen', 'bare', 'inherited', 'getters', 'hidden', 'symbols', 'moody'] as const;

export type Shape = (typeof SHAPES)[number];

export const anyShape: fc.Arbitrary<Shape> = fc.constantFrom(...SHAPES);

/** An object of that shape, which has these values when it is read for the first time. */
export function shaped(values: ReadonlyMap<string, unknown>, shape: Shape): object {
  const plain = Object.fromEntries(values);
  if (shape === 'plain') return plain;
  if (shape === 'frozen') return Object.freeze(plain);
  if (shape === 'bare') return Object.assign(Object.create(null) as object, plain);
  if (shape === 'inherited') return Object.create(plain) as object;
  if (shape === 'symbols') return { ...plain, [Symbol('odd')]: 1 };
  const descriptors = [...values].map(([name, value]) => [name, descriptorOf(value, shape)] as const);
  return Object.defineProperties({}, Object.fromEntries(descriptors));
}

function descriptorOf(value: unknown, shape: Shape): PropertyDescriptor {
  if (shape === 'hidden') return { value, enumerable: false };
  let reads = 0;
  const moody = (): unknown => ((reads += 1) > 1 ? Number.NaN : value);
  return { get: shape === 'moody' ? moody : () => value, enumerable: true };
}
