import { type DynamicModule, type FactoryProvider, type Provider } from '@nestjs/common';
import { type Clock, systemClock } from '../core/clock.js';
import { LockConfigurationError } from '../core/lock.errors.js';
import { MemoryLockServer, MemoryLockStore } from '../memory/memory-lock-store.js';
import { RedisLockModule } from '../redis-lock.module.js';
import type { RedisLockModuleOptions, ResolvedModuleOptions } from '../redis-lock.options.js';
import { LOCK_CLOCK, LOCK_STORE, RESOLVED_OPTIONS } from '../redis-lock.tokens.js';

/** The part of the `TestingModuleBuilder` of \@nestjs/testing in use; that package is not a dependency. */
export interface Overriding {
  overrideProvider(token: unknown): {
    useValue(value: unknown): unknown;
    useFactory(options: { factory: FactoryProvider['useFactory']; inject: FactoryProvider['inject'] }): unknown;
  };
}

/** The place of the locks of a test. */
export interface MemoryLockOptions {
  /**
   * Apps that use the same server share their locks, as instances of one app do.
   * @default one for each module
   */
  readonly server?: MemoryLockServer;
  /**
   * The clock of the locks, such as a `ManualClock`. Leave it out with a `server`, which has its own.
   * @default the clock of the process
   */
  readonly clock?: Clock;
}

type OfRedis =
  'connection' | 'store' | 'memoryInProduction' | 'minReplicas' | 'replicaTimeoutMs' | 'durable' | 'hashTag';

/** The options of `RedisLockTestingModule`. */
export type RedisLockTestingOptions = Omit<RedisLockModuleOptions, OfRedis> & MemoryLockOptions;

/**
 * `RedisLockModule` without a Redis: real locks, with leases, queues, tokens and losses, in the memory of the process.
 * Import it instead of `RedisLockModule`; for an app that imports `RedisLockModule`, see `useMemoryLocks`.
 */
export class RedisLockTestingModule extends RedisLockModule {
  /** As `RedisLockModule`, but `drainMs` is 0 by default: a lock that a test leaves held does not keep its app open. */
  static override forRoot({ server, clock, drainMs = 0, ...options }: RedisLockTestingOptions = {}): DynamicModule {
    return inMemory(super.forRoot({ ...options, drainMs }), { server, clock });
  }

  static override forRootAsync(
    options: Parameters<typeof RedisLockModule.forRootAsync>[0] & MemoryLockOptions,
  ): DynamicModule {
    const { server, clock, ...rest } = options;
    return inMemory(super.forRootAsync(rest), { server, clock });
  }
}

function inMemory(definition: DynamicModule, options: MemoryLockOptions): DynamicModule {
  return { ...definition, providers: [...(definition.providers ?? []), ...memoryProviders(options)] };
}

/**
 * Makes all lock modules of an app under test keep their locks in memory; nothing connects to Redis.
 *
 * `await useMemoryLocks(Test.createTestingModule({ imports: [AppModule] })).compile()`
 */
export function useMemoryLocks<B extends Overriding>(builder: B, options: MemoryLockOptions = {}): B {
  const [clock, store] = memoryProviders(options);
  builder.overrideProvider(LOCK_CLOCK).useValue(clock.useValue);
  builder.overrideProvider(LOCK_STORE).useFactory({ factory: store.useFactory, inject: store.inject });
  return builder;
}

function memoryProviders({ server, clock = server?.clock ?? systemClock }: MemoryLockOptions) {
  if (server && clock !== server.clock) {
    throw new LockConfigurationError(
      'Expected `clock` to be that of the `server`, or left out: locks and their leases need one time. Give it to the server.',
    );
  }
  // Modules with different names never share a lock, even with the same prefix.
  const createStore = ({ keyPrefix, keepMs, name = '' }: ResolvedModuleOptions): MemoryLockStore =>
    new MemoryLockStore(server ?? new MemoryLockServer({ clock }), { keyPrefix: `${name}/${keyPrefix}`, keepMs });
  return [
    { provide: LOCK_CLOCK, useValue: clock },
    { provide: LOCK_STORE, useFactory: createStore, inject: [RESOLVED_OPTIONS] },
  ] as const satisfies Provider[];
}
