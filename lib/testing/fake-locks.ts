import 'reflect-metadata';
import {
  type DynamicModule,
  Inject,
  Module,
  type OnApplicationBootstrap,
  type OnApplicationShutdown,
  type Type,
} from '@nestjs/common';
import { ModulesContainer } from '@nestjs/core';
import { LockConfigurationError } from '../core/lock.errors.js';
import { systemClock } from '../core/clock.js';
import { addModule, addStartingModule, type LockModule, removeModule } from '../interceptor/living-modules.js';
import { LockInterceptor } from '../interceptor/lock.interceptor.js';
import { RedisLockService } from '../redis-lock.service.js';
import {
  getLockInterceptorToken,
  getLockServiceToken,
  LOCK_STORE,
  OWN_INTERCEPTOR,
  OWN_SERVICE,
} from '../redis-lock.tokens.js';
import { FakeLockService } from './fake-lock.service.js';
import { GrantingStore } from './granting-store.js';
import { type Overriding } from './overriding.js';

/** Where Nest keeps which properties of a class it is to set. */
const PROPERTIES = 'self:properties_metadata';

interface InjectedProperty {
  readonly key: string | symbol;
  readonly type: unknown;
}

/**
 * Gives an object that was built by hand what Nest would have injected: its lock decorators, and properties with
 * `@InjectLockService`, use `locks`. `const orders = withFakeLocks(new OrdersService(), locks)`.
 * @returns the same object
 * @throws LockConfigurationError when its class has no lock decorator of the connection for which `locks` stands
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
  for (const { key, type } of ours) Object.assign(instance, { [key]: values.get(type) });
  return instance;
}

/** Provider token: the fake of a `FakeLockModule`, whatever its name. */
const FAKE_LOCKS = Symbol('fake locks');

/** A module in place of `RedisLockModule`, whose service and decorators are those of a `FakeLockService`. */
@Module({})
export class FakeLockModule implements OnApplicationBootstrap, OnApplicationShutdown {
  readonly #module: LockModule;

  constructor(@Inject(FAKE_LOCKS) locks: FakeLockService, @Inject(ModulesContainer) modules: ModulesContainer) {
    this.#module = { interceptor: locks.interceptor, modules };
    addStartingModule(this.#module);
  }

  /** Locks objects that Nest did not build, as `RedisLockModule` does. */
  onApplicationBootstrap(): void {
    addModule(this.#module);
  }

  onApplicationShutdown(): void {
    removeModule(this.#module);
  }

  static forRoot(locks: FakeLockService = new FakeLockService()): DynamicModule {
    const name = locks.connection;
    const byClass =
      name === undefined
        ? [
            provided(RedisLockService, locks),
            provided(FakeLockService, locks),
            provided(LockInterceptor, locks.interceptor),
          ]
        : [];
    const byName = [
      provided(getLockServiceToken(name), locks),
      provided(getLockInterceptorToken(name), locks.interceptor),
    ];
    const exported = [...byClass, ...byName];
    const providers = [provided(FAKE_LOCKS, locks), ...exported];
    return { module: FakeLockModule, global: true, providers, exports: exported.map(({ provide }) => provide) };
  }
}

const provided = (provide: symbol | Type, useValue: object) => ({
  provide,
  useValue,
});

/**
 * Has all lock modules of an app that is under test use a fake: nothing connects to Redis.
 *
 * `await useFakeLocks(Test.createTestingModule({ imports: [AppModule] }), locks).compile()`
 */
export function useFakeLocks<B extends Overriding>(builder: B, locks: FakeLockService = new FakeLockService()): B {
  builder.overrideProvider(LOCK_STORE).useValue(new GrantingStore(systemClock));
  for (const service of [RedisLockService, OWN_SERVICE]) builder.overrideProvider(service).useValue(locks);
  for (const one of [LockInterceptor, OWN_INTERCEPTOR]) builder.overrideProvider(one).useValue(locks.interceptor);
  return builder;
}
