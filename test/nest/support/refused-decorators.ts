import { Limited, Locked, ReadLocked, WriteLocked } from '../../../lib/index.js';

/** What the compiler would refuse, as it is called for code that was not checked. */
export type Unchecked = (...args: unknown[]) => void;

/** A decorator that is written without parentheses: what has the key gets the class. */
export type Bare = MethodDecorator & PropertyDecorator & ParameterDecorator & ClassDecorator;

/** The decorators by their names. */
export const FACTORIES = { Locked, WriteLocked, ReadLocked, Limited };

/** A method as a standard decorator gets it. */
export const charge = async function charge(): Promise<void> {};

/** What a standard decorator is called with, by the kind of the member. */
export const STANDARD: [string, unknown][] = [
  ['method', charge],
  ['getter', () => 1],
  ['setter', () => undefined],
  ['field', undefined],
  ['accessor', { get: () => 1, set: () => undefined }],
  ['class', class Orders {}],
];

/** The arguments of a standard decorator. */
export const standardCall = (kind: string, value: unknown): [unknown, object] => {
  const name = kind === 'class' ? 'Orders' : 'charge';
  return [value, { kind, name, static: false, private: false, metadata: {}, addInitializer: () => undefined }];
};
