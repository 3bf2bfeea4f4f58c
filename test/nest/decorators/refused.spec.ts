import 'reflect-metadata';
import { runInNewContext } from 'node:vm';
import ts from 'typescript';
import { Limited, LockConfigurationError, Locked, LockKeyError, ReadLocked, WriteLocked } from '../../../lib/index.js';
import { thrownBy } from '../../support/waiting/rejection.js';

/** The decorators, with types that also accept what the compiler would refuse. */
type Unchecked = (...args: unknown[]) => unknown;

const FACTORIES = { Locked, WriteLocked, ReadLocked, Limited } as unknown as Record<string, Unchecked>;
const NAMES = Object.keys(FACTORIES);

/** The decorator with this key. */
const withKey = (name: string, ...[key]: unknown[]): Unchecked =>
  FACTORIES[name]!(...(name === 'Limited' ? [key, 2] : [key])) as Unchecked;

const METHODS: Record<string, string> = {
  'a method': 'class Orders { @decorate async charge(id) {} }',
  'a method with a symbol': 'class Orders { @decorate async [symbol]() {} }',
};

const OTHER_MEMBERS: Record<string, string> = {
  'a getter': 'class Orders { @decorate get charge() { return 1 } }',
  'a setter': 'class Orders { @decorate set charge(value) {} }',
  'a static method': 'class Orders { @decorate static async charge() {} }',
  'a static getter': 'class Orders { @decorate static get charge() { return 1 } }',
  'a static field with an arrow function': 'class Orders { @decorate static charge = async () => {} }',
  'a field with an arrow function': 'class Orders { @decorate charge = async () => {} }',
  'a field that is not a function': 'class Orders { @decorate charge = 1 }',
  'a class': '@decorate class Orders { async charge() {} }',
};

/** Only decorators of TypeScript decorate parameters, and only those of ECMAScript accessors. */
const PARAMETERS: Record<string, string> = {
  'a parameter of a method': 'class Orders { async charge(@decorate id) {} }',
  'a parameter of a constructor': 'class Orders { constructor(@decorate id) {} }',
};
const ACCESSORS = { 'an accessor': 'class Orders { @decorate accessor charge = 1 }' };

/** Defines a class whose code no compiler has checked, with the decorators of TypeScript or of ECMAScript. */
function define(source: string, decorate: unknown, experimentalDecorators = true): unknown {
  const compilerOptions = { experimentalDecorators, target: ts.ScriptTarget.ES2022 };
  const { outputText } = ts.transpileModule(source, { compilerOptions });
  return runInNewContext(outputText, { decorate, symbol: Symbol('charge') });
}

function refused(call: () => unknown): string {
  const error = thrownBy(call);
  expect(error).toBeInstanceOf(LockConfigurationError);
  return error.message;
}

const NAMED = /^Orders(\.(charge|Symbol\(charge\)))?: /;

describe.each(NAMES)('@%s without parentheses', (name) => {
  const bare = FACTORIES[name]!;
  const written = name === 'WriteLocked' ? 'Locked' : name;
  const advice = new RegExp(`@${name} .*parentheses.*write @${written}\\('.*'${name === 'Limited' ? ', \\d+' : ''}\\)`);

  it.each(Object.entries({ ...METHODS, ...OTHER_MEMBERS, ...PARAMETERS }))(
    'is refused on %s when the class is defined, with what to write',
    (_member, source) => {
      const message = refused(() => define(source, bare));
      expect(message).toMatch(NAMED);
      expect(message).toMatch(advice);
    },
  );

  it.each(Object.entries({ ...METHODS, ...OTHER_MEMBERS, ...ACCESSORS }))(
    'is refused as a standard decorator of %s, with a hint at `experimentalDecorators`',
    (_member, source) => {
      const message = refused(() => define(source, bare, false));
      expect(message).toMatch(/^(charge|Orders|Symbol\(charge\)): /);
      expect(message).toMatch(advice);
      expect(message).toContain('experimentalDecorators');
    },
  );

  it('is refused on a class that was compiled to a function, and as a decorator of an older proposal', () => {
    function Orders(): void {}
    Orders.prototype.charge = async (): Promise<void> => {};
    expect(refused(() => bare(Orders))).toMatch(advice);
    const descriptor = { value: async () => undefined };
    expect(refused(() => bare({ kind: 'method', key: 'charge', placement: 'prototype', descriptor }))).toMatch(advice);
  });
});

it('a key function is not mistaken for a decorated class', () => {
  for (const key of [
    (id: string) => id,
    function keyOf(id: string) {
      return id;
    },
  ]) {
    expect(() => Locked(key)).not.toThrow();
    expect(() => Limited(key, 2)).not.toThrow();
  }
});

describe('a member that cannot be locked', () => {
  it.each(Object.entries({ ...OTHER_MEMBERS, ...PARAMETERS }))(
    '%s is refused when the class is defined, with its name and the fix',
    (member, source) => {
      const message = refused(() => define(source, withKey('Locked', 'k')));
      expect(message).toMatch(/^Orders(\.charge)?: .*; put the decorator on a method of a class\.$/);
      expect(message.startsWith('Orders.charge: ')).toBe(!/class|constructor/.test(member));
      expect(message.includes('a static method')).toBe(member.includes('static'));
      expect(message).not.toContain('undefined');
    },
  );

  it('a generator is refused when the class is defined, since it runs after its call', () => {
    const message = refused(() => define('class Orders { @decorate *charge() {} }', withKey('Locked', 'k')));
    expect(message).toMatch(/^Orders\.charge: a generator runs after its lock is released; write `async \*charge`/);
  });

  it.each(NAMES)('is refused by @%s', (name) => {
    refused(() => define(OTHER_MEMBERS['a static method']!, withKey(name, 'k')));
  });

  it('is a method whose value is not a function', () => {
    const apply = () =>
      withKey('Locked', 'k')({ constructor: { name: 'Orders' } }, 'charge', { value: 5, writable: true });
    expect(refused(apply)).toMatch(/^Orders\.charge: expected a method to lock/);
  });
});

describe('a decorator without a key', () => {
  it.each(NAMES)('is refused: @%s', (name) => {
    for (const key of [undefined, null, 5, '']) {
      const error = thrownBy(() => define(METHODS['a method']!, withKey(name, key)));
      expect(error).toBeInstanceOf(LockKeyError);
      expect(error.message).toMatch(/^Orders\.charge: the key template is .*; write one/);
    }
  });
});

describe.each(NAMES)('@%s that is called as a standard decorator', (name) => {
  it.each(Object.entries({ ...METHODS, ...OTHER_MEMBERS, ...ACCESSORS }))(
    'is refused on %s with the name of the member and a hint at `experimentalDecorators`',
    (_member, source) => {
      const message = refused(() => define(source, withKey(name, 'k'), false));
      expect(message).toContain('experimentalDecorators');
      expect(message).toMatch(/charge|Orders/);
      expect(message).not.toMatch(/static|\[object Object\]/);
    },
  );
});
