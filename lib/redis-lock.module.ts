import { hostname } from 'node:os';
import {
  type BeforeApplicationShutdown,
  type DynamicModule,
  Inject,
  Logger,
  Module,
  type OnApplicationShutdown,
  type OnModuleDestroy,
  type OnModuleInit,
} from '@nestjs/common';
import { ModulesContainer } from '@nestjs/core';
import { type Clock, systemClock } from './core/clock.js';
import { type LockStore } from './core/lock-store.js';
import { Locker } from './core/locker.js';
import { LockInterceptor } from './interceptor/lock.interceptor.js';
import { addModule, removeModule } from './interceptor/living-modules.js';
import { openStore } from './redis/open-store.js';
import { type LockScripts, createLockScripts } from './redis/scripts/lock-scripts.js';
import { stopJobs } from './schedule/stop-jobs.js';
import {
  ConfigurableModuleClass,
  MODULE_OPTIONS_TOKEN,
  type RedisLockModuleAsyncOptions,
} from './redis-lock.module-definition.js';
import {
  type RedisLockModuleOptions,
  type ResolvedModuleOptions,
  checkExtras,
  resolveModuleOptions,
} from './redis-lock.options.js';
import { checkNoExtras, checkRegisteredOnce } from './redis-lock.registration.js';
import { RedisLockService } from './redis-lock.service.js';
import {
  getLockInterceptorToken,
  getLockServiceToken,
  LOCK_CLOCK,
  LOCK_SCRIPTS,
  LOCK_STORE,
  LOCKER,
  RESOLVED_OPTIONS,
} from './redis-lock.tokens.js';

const logger = new Logger('RedisLock');

/** What the default module exports under its own names. */
const BY_CLASS = [RedisLockService, LockInterceptor, LOCK_SCRIPTS];

const createStore = (options: ResolvedModuleOptions, scripts: LockScripts, clock: Clock): LockStore =>
  openStore({ ...options, scripts, clock, reporter: logger });

const createLocker = (store: LockStore, clock: Clock): Locker =>
  new Locker(clock, store, logger, `${hostname().slice(0, 40)}:${process.pid}`);

/** Distributed locks on Redis: import it once with `forRoot` or `forRootAsync`, and use `@Locked` anywhere. */
@Module({
  providers: [
    { provide: LOCK_SCRIPTS, useFactory: createLockScripts },
    { provide: LOCK_CLOCK, useValue: systemClock },
    { provide: LOCK_STORE, useFactory: createStore, inject: [RESOLVED_OPTIONS, LOCK_SCRIPTS, LOCK_CLOCK] },
    { provide: LOCKER, useFactory: createLocker, inject: [LOCK_STORE, LOCK_CLOCK] },
    RedisLockService,
    LockInterceptor,
  ],
})
export class RedisLockModule
  extends ConfigurableModuleClass
  implements OnModuleInit, OnModuleDestroy, BeforeApplicationShutdown, OnApplicationShutdown
{
  #drained: Promise<void> | null = null;
  #closed: Promise<void> | null = null;

  /** Internal: Nest calls it. */
  constructor(
    @Inject(LockInterceptor) private readonly interceptor: LockInterceptor,
    @Inject(LOCKER) private readonly locker: Locker,
    @Inject(LOCK_STORE) private readonly store: LockStore,
    @Inject(RESOLVED_OPTIONS) private readonly options: ResolvedModuleOptions,
    @Inject(ModulesContainer) private readonly modules: ModulesContainer,
  ) {
    super();
  }

  /** Sets up the module with options that are known now. */
  static override forRoot(options: RedisLockModuleOptions = {}): DynamicModule {
    checkExtras(options);
    const { name, ...rest } = options;
    return withTokens(super.forRoot(rest), name);
  }

  /** Sets up the module with options that other providers give: `useFactory`, `useClass` or `useExisting`. */
  static override forRootAsync(options: RedisLockModuleAsyncOptions): DynamicModule {
    checkExtras(options);
    return withTokens(super.forRootAsync(options), options.name);
  }

  /** Connects now and not when it is built, so that an app which does not start leaves no connection behind. */
  onModuleInit(): void {
    addModule(this.interceptor);
    this.store.open();
  }

  /** Admits no more, and ends the waiting; from now on holders have `drainMs`, whatever other modules still do. */
  onModuleDestroy(): void {
    void this.#drain();
  }

  /** Waits for the holders here, where what they work with is not closed yet, and after this hook nothing is cut short. */
  async beforeApplicationShutdown(): Promise<void> {
    stopJobs(this.modules);
    await this.#drain();
  }

  async onApplicationShutdown(): Promise<void> {
    this.#closed ??= this.#drain().then(() => {
      removeModule(this.interceptor);
      return this.store.close();
    });
    await this.#closed;
  }

  #drain(): Promise<void> {
    this.#drained ??= this.locker.close(this.options.drainMs);
    return this.#drained;
  }
}

/**
 * The service and the interceptor, by the tokens under which the decorators and `InjectLockService` ask for them.
 * Only the default module exports them by class: a named one must not become the default by the order of imports.
 */
function withTokens(definition: DynamicModule, name: string | undefined): DynamicModule {
  const resolve = (options: RedisLockModuleOptions, modules: ModulesContainer): ResolvedModuleOptions => {
    checkRegisteredOnce(modules, name);
    checkNoExtras(options);
    return { ...resolveModuleOptions(options), name };
  };
  const named = [
    { provide: getLockServiceToken(name), useExisting: RedisLockService },
    { provide: getLockInterceptorToken(name), useExisting: LockInterceptor },
  ];
  return {
    ...definition,
    providers: [
      ...(definition.providers ?? []),
      { provide: RESOLVED_OPTIONS, useFactory: resolve, inject: [MODULE_OPTIONS_TOKEN, ModulesContainer] },
      ...named,
    ],
    exports: [...named.map(({ provide }) => provide), ...(name === undefined ? BY_CLASS : [])],
  };
}
