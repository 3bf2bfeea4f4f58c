import 'reflect-metadata';
import { SetMetadata } from '@nestjs/common';
import { LockConfigurationError, Locked, LockKeyError, type LockedOptions } from '../../../lib/index.js';

const BARE = async function charge(this: unknown, _order: unknown, _step: unknown): Promise<void> {};

/** Decorates a method of a class `Orders` with what the compiler would refuse. */
const define = (key: unknown, options?: unknown) => {
  class Orders {
    @Locked(key as 'k', options as LockedOptions)
    async charge(_order: unknown, _step: unknown): Promise<void> {}
  }
  return Orders;
};

describe('the definition of a class', () => {
  it.each([
    ['a bad template', 'order:<0', undefined, LockKeyError],
    ['an empty key', '', undefined, LockKeyError],
    ['a bad option', 'k', { leaseMs: 1 }, LockConfigurationError],
    ['an unknown option', 'k', { timeout: 5 }, LockConfigurationError],
    ['a bad ifBusy', 'k', { ifBusy: 'ignore' }, LockConfigurationError],
    ['a mode', 'k', { mode: 'read' }, LockConfigurationError],
    ['a wait that has no effect', 'k', { ifBusy: 'skip', waitMs: 5 }, LockConfigurationError],
    ['a connection that is no name', 'k', { connection: 5 }, LockConfigurationError],
  ])('throws for %s, and names class and method', (_what, key, options, type) => {
    expect(() => define(key, options)).toThrow(type);
    expect(() => define(key, options)).toThrow(/^Orders\.charge: /);
  });

  it('keeps the name, the length and all metadata of the method, set above or below', () => {
    class Orders {
      @SetMetadata('above', 1)
      @Locked('k')
      @SetMetadata('below', 2)
      async charge(_order: unknown, _step: unknown): Promise<void> {}
    }
    const method = Object.getOwnPropertyDescriptor(Orders.prototype, 'charge')!.value as (
      ...args: unknown[]
    ) => unknown;
    expect([method.name, method.length]).toEqual([BARE.name, BARE.length]);
    expect([Reflect.getMetadata('above', method), Reflect.getMetadata('below', method)]).toEqual([1, 2]);
    expect(Reflect.getMetadata('design:paramtypes', Orders.prototype, 'charge')).toEqual([Object, Object]);
  });
});
