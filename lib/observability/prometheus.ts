import { type DynamicModule, Inject, Module, type OnApplicationShutdown, type OnModuleInit } from '@nestjs/common';
import { ModuleRef } from '@nestjs/core';
import { register } from 'prom-client';
import { findLockService } from './lock-services.js';
import { type LockSource, measureLocks } from './measure-locks.js';
import {
  BUCKET_NAMES,
  type BucketOptions,
  checkExporterOptions,
  type ConnectionsOption,
} from './observability-options.js';
import { type AnyRegistry, recorderOf } from './prometheus-metrics.js';
import { sharedRuns } from './shared-runs.js';

export type { LockSource } from './measure-locks.js';
export type { BucketOptions, ConnectionsOption } from './observability-options.js';

/** How to collect metrics. The first service in a registry decides the buckets; later ones share its histograms. */
export interface CollectLockMetricsOptions extends BucketOptions {
  /**
   * Where the metrics are registered.
   * @default the global `register` of prom-client
   */
  registry?: AnyRegistry;
}

/** The options of `PrometheusLockModule`. */
export interface PrometheusLockModuleOptions extends CollectLockMetricsOptions, ConnectionsOption {}

const NAMES = { registry: true, ...BUCKET_NAMES } satisfies Record<keyof CollectLockMetricsOptions, true>;
const MODULE_NAMES = { registry: true, connections: true, ...BUCKET_NAMES } satisfies Record<
  keyof PrometheusLockModuleOptions,
  true
>;
const shareRun = sharedRuns();

/**
 * Collects the metrics of a lock service: `redis_lock_acquire_duration_seconds`, `redis_lock_hold_duration_seconds`,
 * `redis_lock_held`, `redis_lock_waiting`, `redis_lock_renewals_total`, `redis_lock_leading`, `redis_lock_elections_total`. Several services can share a registry; a service
 * that is collected twice counts once.
 * @returns a function that stops, and subtracts what it counted as held, led and waiting
 * @throws LockConfigurationError for a wrong option
 */
export function collectLockMetrics(locks: LockSource, options: CollectLockMetricsOptions = {}): () => void {
  const own = checkExporterOptions(options, 'collectLockMetrics', NAMES);
  const { registry = register } = own;
  return shareRun(locks.events, registry, () => measureLocks(locks, recorderOf(registry, own)));
}

/** Provider token of the options; internal. */
const OPTIONS = Symbol.for('nestjs-redis-lock:prometheus-options');

/** Collects the metrics of the app's locks while the app runs: import it beside `RedisLockModule`. */
@Module({})
export class PrometheusLockModule implements OnModuleInit, OnApplicationShutdown {
  readonly #stops: (() => void)[] = [];

  /** Internal: Nest calls it. */
  constructor(
    @Inject(ModuleRef) private readonly moduleRef: ModuleRef,
    @Inject(OPTIONS) private readonly options: PrometheusLockModuleOptions,
  ) {}

  /** @throws LockConfigurationError for a wrong option, and at the start of the app when a connection has no module */
  static forRoot(options: PrometheusLockModuleOptions = {}): DynamicModule {
    const own = checkExporterOptions(options, 'PrometheusLockModule', MODULE_NAMES);
    return { module: PrometheusLockModule, providers: [{ provide: OPTIONS, useValue: own }] };
  }

  onModuleInit(): void {
    const { connections = [undefined], ...options } = this.options;
    const services = connections.map((name) => findLockService(this.moduleRef, name, 'PrometheusLockModule'));
    for (const locks of services) this.#stops.push(collectLockMetrics(locks, options));
  }

  /** Runs after all modules were destroyed, so that locks are still counted while the app drains. */
  onApplicationShutdown(): void {
    for (const stop of this.#stops.splice(0)) stop();
  }
}
