import { type DynamicModule, Inject, Module, type OnApplicationShutdown, type OnModuleInit } from '@nestjs/common';
import { ModuleRef } from '@nestjs/core';
import {
  Counter,
  Gauge,
  Histogram,
  type Metric,
  type OpenMetricsContentType,
  register,
  type Registry,
} from 'prom-client';
import { findLockService } from './find-lock-service.js';
import { ACQUIRE_BUCKETS, HOLD_BUCKETS, LOCK_METRICS, type MetricDefinition } from './lock-metrics.js';
import { type LockSource, measureLocks, type RecordMetric } from './measure-locks.js';
import { type BucketOptions, checkExporterOptions, type ConnectionsOption } from './observability-options.js';
import { sharedRuns } from './shared-runs.js';

/** Of either text format; internal. */
type AnyRegistry = Registry | Registry<OpenMetricsContentType>;

export type { LockSource } from './measure-locks.js';
export type { BucketOptions, ConnectionsOption } from './observability-options.js';

/** How to collect metrics. Buckets count for the first who registers in a registry; later ones share its histograms. */
export interface CollectLockMetricsOptions extends BucketOptions {
  /**
   * Where the metrics are registered.
   * @default the global `register` of prom-client
   */
  registry?: AnyRegistry;
}

/** The options of `PrometheusLockModule`. */
export interface PrometheusLockModuleOptions extends CollectLockMetricsOptions, ConnectionsOption {}

const shareRun = sharedRuns();

/**
 * Collects the metrics of a lock service: `redis_lock_acquire_duration_seconds`, `redis_lock_hold_duration_seconds`,
 * `redis_lock_held`, `redis_lock_waiting`, `redis_lock_renewals_total`. Several services may share a registry; a service
 * that is collected twice counts once.
 * @returns a function that stops, and takes back what it counted as held and waiting
 * @throws LockConfigurationError for a wrong option
 */
export function collectLockMetrics(locks: LockSource, options: CollectLockMetricsOptions = {}): () => void {
  checkExporterOptions(options, 'collectLockMetrics', ['registry']);
  const { registry = register } = options;
  return shareRun(locks.events, registry, () => measureLocks(locks, recorderOf(registry, options)));
}

/** The metrics of a registry: those that are there are used, so that several services share them. */
function recorderOf(registry: AnyRegistry, { acquireBuckets, holdBuckets }: BucketOptions): RecordMetric {
  const use = <T extends Metric>({ prometheusName }: MetricDefinition, create: () => T): T =>
    (registry.getSingleMetric(prometheusName) as T | undefined) ?? create();
  const histogram = (definition: MetricDefinition, buckets: readonly number[]): Histogram =>
    use(definition, () => new Histogram({ ...configurationOf(definition, registry), buckets: [...buckets] }));
  const gauge = (definition: MetricDefinition): Gauge =>
    use(definition, () => new Gauge(configurationOf(definition, registry)));
  const { acquireDuration, holdDuration, held, waiting, renewals } = LOCK_METRICS;
  const metrics = {
    acquireDuration: histogram(acquireDuration, acquireBuckets ?? ACQUIRE_BUCKETS),
    holdDuration: histogram(holdDuration, holdBuckets ?? HOLD_BUCKETS),
    held: gauge(held),
    waiting: gauge(waiting),
    renewals: use(renewals, () => new Counter(configurationOf(renewals, registry))),
  };
  return (name, value, labels) => {
    const metric = metrics[name];
    if ('observe' in metric) metric.observe(labels, value);
    else metric.inc(labels, value);
  };
}

const configurationOf = ({ prometheusName, description, labels }: MetricDefinition, registry: AnyRegistry) => ({
  name: prometheusName,
  help: description,
  labelNames: [...labels],
  registers: [registry],
});

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

  /** @throws LockConfigurationError for a wrong option; at the start of the app, when a connection has no module */
  static forRoot(options: PrometheusLockModuleOptions = {}): DynamicModule {
    checkExporterOptions(options, 'PrometheusLockModule', ['registry', 'connections']);
    return { module: PrometheusLockModule, providers: [{ provide: OPTIONS, useValue: options }] };
  }

  onModuleInit(): void {
    const { connections = [undefined], ...options } = this.options;
    const services = connections.map((name) => findLockService(this.moduleRef, name, 'PrometheusLockModule'));
    for (const locks of services) this.#stops.push(collectLockMetrics(locks, options));
  }

  /** After all modules were destroyed: what the locks do while the app drains is still counted. */
  onApplicationShutdown(): void {
    for (const stop of this.#stops.splice(0)) stop();
  }
}
