import 'reflect-metadata';
import { type DynamicModule } from '@nestjs/common';
import { LockConfigurationError } from '../core/lock.errors.js';
import { LockInterceptor } from '../interceptor/lock.interceptor.js';
import { createCampaign, type Leaders } from '../leader/leaders.js';
import { RedisLockModule } from '../redis-lock.module.js';
import { partsOf } from '../redis-lock.parts.js';
import { RedisLockService } from '../redis-lock.service.js';
import {
  getLockInterceptorToken,
  getLockServiceToken,
  LOCKER,
  LOCK_STORE,
  OWN_INTERCEPTOR,
  OWN_SERVICE,
} from '../redis-lock.tokens.js';
import { FakeLockService, openLocker } from './fake-lock.service.js';
import { type Overriding } from './redis-lock-testing.module.js';

/** The metadata key under which Nest keeps the injected properties of a class. */
const PROPERTIES = 'self:properties_metadata';

type InjectedProperty = { readonly key: string | symbol; readonly type: unknown };

/**
 * Injects `locks` into an object that you built yourself, as Nest would: its lock decorators, and properties with
 * `@InjectLockService`, use them, and an object with `@Leader` campaigns. `const orders = withFakeLocks(new OrdersService(), locks)`.
 * @returns the same object
 * @throws LockConfigurationError
 */
export function withFakeLocks<T extends object>(instance: T, locks: FakeLockService = new FakeLockService()): T {
  const injected = (Reflect.getMetadata(PROPERTIES, instance.constructor) ?? []) as readonly InjectedProperty[];
  const name = locks.connection;
  const values = new Map<unknown, unknown>([
    [getLockInterceptorToken(name), locks.interceptor],
    [getLockServiceToken(name), locks],
    ...(name === undefined ? ([[RedisLockService, locks]] as const) : []),
  ]);
  const ours = injected.filter(({ type }) => values.has(type));
  if (ours.length === 0) {
    const of = name === undefined ? '' : ` of the connection "${name}"`;
    throw new LockConfigurationError(
      `${instance.constructor.name} has no lock decorator${of}, so there is nothing to fake; give its constructor the ` +
        'FakeLockService, if it takes one.',
    );
  }
  for (const { key, type } of ours) {
    // A setter of @Leader would refuse a second object, but a fake represents any number of instances.
    Object.defineProperty(instance, key, {
      value: values.get(type),
      writable: true,
      enumerable: true,
      configurable: true,
    });
  }
  createCampaign(instance, partsOf(locks)!.leaders as Leaders, name)?.start();
  return instance;
}

/** `RedisLockModule` whose service and decorators use a `FakeLockService`; nothing connects. */
export class FakeLockModule {
  static forRoot(locks: FakeLockService = new FakeLockService()): DynamicModule {
    const name = locks.connection;
    const definition = RedisLockModule.forRoot({ ...(name === undefined ? {} : { name }), drainMs: 0 });
    const { providers = [], exports = [] } = definition;
    const ours = fakesOf(locks).filter(({ provide }) => name === undefined || typeof provide === 'symbol');
    const byClass = name === undefined ? [{ provide: FakeLockService, useValue: locks }] : [];
    return {
      ...definition,
      providers: [...providers, ...ours, ...byClass],
      exports: [...exports, ...byClass.map(({ provide }) => provide)],
    };
  }
}

const fakesOf = (locks: FakeLockService) => [
  { provide: LOCK_STORE, useFactory: () => partsOf(locks)!.store },
  { provide: LOCKER, useFactory: () => openLocker(locks) },
  { provide: RedisLockService, useFactory: () => locks },
  { provide: OWN_SERVICE, useFactory: () => locks },
  { provide: LockInterceptor, useFactory: () => locks.interceptor },
  { provide: OWN_INTERCEPTOR, useFactory: () => locks.interceptor },
];

/**
 * Makes all lock modules of an app under test use a fake; nothing connects to Redis.
 *
 * `await useFakeLocks(Test.createTestingModule({ imports: [AppModule] }), locks).compile()`
 */
export function useFakeLocks<B extends Overriding>(builder: B, locks: FakeLockService = new FakeLockService()): B {
  for (const { provide, useFactory } of fakesOf(locks)) {
    builder.overrideProvider(provide).useFactory({ factory: useFactory, inject: [] });
  }
  return builder;
}
