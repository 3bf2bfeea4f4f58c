import {
  type BeforeApplicationShutdown,
  type ConfigurableModuleAsyncOptions,
  ConfigurableModuleBuilder,
  type DynamicModule,
  Inject,
  Module,
  type OnApplicationBootstrap,
  type OnApplicationShutdown,
  type OnModuleDestroy,
  type OnModuleInit,
  type Provider,
} from '@nestjs/common';
import { ModulesContainer } from '@nestjs/core';
import { Locker } from './core/acquire/locker.js';
import { type Clock, systemClock } from './core/clock.js';
import { separateRequests } from './core/reentry/context.js';
import { storeOf } from './core/store/given-store.js';
import { ownHost } from './core/store/holder-text.js';
import { type LockStore } from './core/store/lock-store.js';
import { checkJobsDiffer, warnOfLongLeases } from './interceptor/jobs.js';
import { logger } from './interceptor/lock-logger.js';
import { LockInterceptor } from './interceptor/lock.interceptor.js';
import {
  refuseLostMessages,
  warnOfUnreachedLocks,
  warnOfUnscheduledJobs,
} from './interceptor/request/unreached-locks.js';
import { addRunningModule, addStartingModule, type LockModule, removeModule } from './interceptor/running-modules.js';
import {
  type Extras,
  type RedisLockModuleOptions,
  type ResolvedModuleOptions,
  checkExtras,
  checkNoExtras,
  readAsyncOptions,
  readModuleOptions,
  resolveModuleOptions,
} from './redis-lock.options.js';
import {
  AppStart,
  AppStartModule,
  checkIsStatic,
  checkRegisteredOnce,
  refuseBareImport,
} from './redis-lock.registration.js';
import { partsOf } from './redis-lock.parts.js';
import { RedisLockService } from './redis-lock.service.js';
import {
  getLockInterceptorToken,
  getLockServiceToken,
  LOCK_CLOCK,
  LOCK_SCRIPTS,
  LOCK_STORE,
  LOCKER,
  OWN_INTERCEPTOR,
  OWN_SERVICE,
  RESOLVED_OPTIONS,
} from './redis-lock.tokens.js';
import { addCampaigns, type Leaders } from './leader/leaders.js';
import { MEMORY, localConnection } from './redis-lock.place.js';
import { openProcessMemory } from './memory/process-memory.js';
import { openStore } from './redis/open-store.js';
import { type LockScripts, createLockScripts } from './redis/scripts/lock-scripts.js';
import { followJobs, stopJobs } from './schedule/scheduler.js';
import { systemRandomness } from './core/randomness.js';
import { systemAfterTurn, systemRuntime } from './core/runtime.js';

type FactoryOptions = Omit<RedisLockModuleOptions, keyof Extras>;

/** The source of the options (`useFactory`, `useClass` or `useExisting`), and the options that Nest needs before it runs. */
export interface RedisLockModuleAsyncOptions
  extends ConfigurableModuleAsyncOptions<FactoryOptions, 'createRedisLockOptions'>, Extras {}

const { ConfigurableModuleClass, MODULE_OPTIONS_TOKEN } = new ConfigurableModuleBuilder<FactoryOptions>({
  moduleName: 'RedisLock',
})
  .setClassMethodName('forRoot')
  .setFactoryMethodName('createRedisLockOptions')
  // The builder does not pass these on to the options.
  .setExtras<Extras>({ isGlobal: true, name: undefined }, (definition, { isGlobal }) => ({
    ...definition,
    global: isGlobal ?? true,
  }))
  .build();

/** The service and the interceptor of the default module, injected by class. */
const BY_CLASS: Provider[] = [
  RedisLockService,
  LockInterceptor,
  { provide: OWN_SERVICE, useExisting: RedisLockService },
  { provide: OWN_INTERCEPTOR, useExisting: LockInterceptor },
];

/** The same for a named module: `app.get(RedisLockService)` must never find it. */
const BY_TOKEN: Provider[] = [
  { provide: OWN_SERVICE, useClass: RedisLockService },
  { provide: OWN_INTERCEPTOR, useClass: LockInterceptor },
];

function createStore(options: ResolvedModuleOptions, scripts: LockScripts, clock: Clock): LockStore {
  const { connection, store, keyPrefix, keepMs } = options;
  if (store !== undefined) return storeOf(store, { keyPrefix, keepMs, clock, reporter: logger });
  if (connection === MEMORY) return openProcessMemory({ keyPrefix, keepMs, reporter: logger });
  return openStore({
    ...options,
    connection: connection ?? localConnection(logger),
    scripts,
    clock,
    random: systemRandomness,
    afterTurn: systemAfterTurn,
    reporter: logger,
  });
}

const createLocker = (store: LockStore, clock: Clock): Locker =>
  new Locker(systemRuntime(clock), store, logger, `${ownHost()}:${process.pid}`);

/** Distributed locks on Redis. Import it once with `forRoot` or `forRootAsync`, and use `@Locked` anywhere. */
@Module({
  imports: [AppStartModule],
  providers: [
    // forRoot() and forRootAsync() replace it. It injects nothing, so it fails before any provider that needs a lock.
    { provide: RESOLVED_OPTIONS, useFactory: refuseBareImport },
    { provide: LOCK_SCRIPTS, useFactory: createLockScripts },
    { provide: LOCK_CLOCK, useValue: systemClock },
    { provide: LOCK_STORE, useFactory: createStore, inject: [RESOLVED_OPTIONS, LOCK_SCRIPTS, LOCK_CLOCK] },
    { provide: LOCKER, useFactory: createLocker, inject: [LOCK_STORE, LOCK_CLOCK] },
  ],
})
export class RedisLockModule
  extends ConfigurableModuleClass
  implements OnModuleInit, OnApplicationBootstrap, OnModuleDestroy, BeforeApplicationShutdown, OnApplicationShutdown
{
  readonly #module: LockModule;
  readonly #locks: RedisLockService;
  readonly #locker: Locker;
  readonly #store: LockStore;
  readonly #options: ResolvedModuleOptions;
  readonly #modules: ModulesContainer;
  #stopSeparating: (() => void) | null = null;
  #drained: Promise<void> | null = null;
  #closed: Promise<void> | null = null;

  /** Internal: Nest calls it. */
  constructor(
    @Inject(OWN_INTERCEPTOR) interceptor: LockInterceptor,
    @Inject(OWN_SERVICE) locks: RedisLockService,
    @Inject(LOCKER) locker: Locker,
    @Inject(LOCK_STORE) store: LockStore,
    @Inject(RESOLVED_OPTIONS) options: ResolvedModuleOptions,
    @Inject(ModulesContainer) modules: ModulesContainer,
    @Inject(AppStart) appStart: AppStart,
  ) {
    super();
    this.#locks = locks;
    this.#locker = locker;
    this.#store = store;
    this.#options = options;
    this.#modules = modules;
    this.#module = { interceptor, modules };
    addStartingModule(this.#module);
    appStart.add(() => this.#onStarted());
  }

  /**
   * Sets up the module with options that are known now.
   * @throws LockConfigurationError
   */
  static override forRoot(options: RedisLockModuleOptions = {}): DynamicModule {
    const own = readModuleOptions(options);
    checkExtras(own);
    return withTokens(super.forRoot(own), own.name);
  }

  /**
   * Sets up the module with options from other providers: `useFactory`, `useClass` or `useExisting`.
   * @throws LockConfigurationError
   */
  static override forRootAsync(options: RedisLockModuleAsyncOptions): DynamicModule {
    const own = readAsyncOptions(options);
    return withTokens(super.forRootAsync(own), own.name);
  }

  onModuleInit(): void {
    followJobs(this.#modules);
    if (this.#leaders) addCampaigns(this.#modules, this.#leaders, this.#options.name);
    refuseLostMessages(this.#modules, this.#options.name);
    warnOfUnreachedLocks(this.#modules, getLockInterceptorToken(this.#options.name), logger);
    warnOfUnscheduledJobs(this.#modules, this.#options.name, logger);
  }

  /**
   * Connects, unless a lock was used before. It does not connect earlier, because Nest calls none of our hooks when the
   * `onModuleInit` of another module throws: the connections would stay open.
   */
  onApplicationBootstrap(): void {
    // The module was closed before: a connection that is opened now would never be closed.
    if (this.#drained) return;
    // Other modules may have set in `onModuleInit` what the key functions of their jobs read.
    checkJobsDiffer(this.#modules, this.#options.name, logger);
    addRunningModule(this.#module);
    this.#stopSeparating ??= separateRequests();
    this.#store.open?.();
  }

  #onStarted(): void {
    // The module was closed before.
    if (this.#drained) return;
    const { name, leaseMs } = this.#options;
    // The scheduler has all its jobs now.
    warnOfLongLeases(this.#modules, name, leaseMs, logger);
    this.#leaders?.start();
  }

  /** Undefined if a test has replaced the service by a mock. */
  get #leaders(): Leaders | undefined {
    return partsOf(this.#locks)?.leaders as Leaders | undefined;
  }

  /** Leaders step down. Refuses new acquisitions and cancels the waiting ones; from now on, holders have `drainMs`. */
  onModuleDestroy(): void {
    void this.#drain();
  }

  /** Waits for the holders. Until this hook ends, Nest closes none of their resources. */
  async beforeApplicationShutdown(): Promise<void> {
    const drained = this.#drain();
    stopJobs(this.#modules);
    await drained;
  }

  async onApplicationShutdown(): Promise<void> {
    this.#closed ??= this.#locker.awaited.keepAlive(this.#close());
    await this.#closed;
  }

  async #close(): Promise<void> {
    await this.#drain();
    removeModule(this.#module);
    this.#stopSeparating?.();
    await partsOf(this.#locks)?.history.close();
    await this.#store.close();
  }

  #drain(): Promise<void> {
    this.#drained ??= this.#locker.awaited.keepAlive(this.#locker.close(this.#options.drainMs));
    return this.#drained;
  }
}

/**
 * Adds the tokens under which the decorators and `InjectLockService` find the service and the interceptor. Only the default
 * module exports them by class: the order of imports must not make a named module the default.
 */
function withTokens(definition: DynamicModule, name: string | undefined): DynamicModule {
  const resolve = (options: RedisLockModuleOptions, modules: ModulesContainer): ResolvedModuleOptions => {
    checkRegisteredOnce(modules, name);
    checkIsStatic(modules, MODULE_OPTIONS_TOKEN, name);
    checkNoExtras(options);
    return { ...resolveModuleOptions(options), name };
  };
  const named = [
    { provide: getLockServiceToken(name), useExisting: OWN_SERVICE },
    { provide: getLockInterceptorToken(name), useExisting: OWN_INTERCEPTOR },
  ];
  return {
    ...definition,
    providers: [
      ...(definition.providers ?? []),
      { provide: RESOLVED_OPTIONS, useFactory: resolve, inject: [MODULE_OPTIONS_TOKEN, ModulesContainer] },
      ...(name === undefined ? BY_CLASS : BY_TOKEN),
      ...named,
    ],
    exports: [
      ...named.map(({ provide }) => provide),
      ...(name === undefined ? [RedisLockService, LockInterceptor, LOCK_SCRIPTS] : []),
    ],
  };
}
