import { type DynamicModule, Inject, Module, type OnApplicationShutdown, type OnModuleInit } from '@nestjs/common';
import { ModuleRef } from '@nestjs/core';
import { Counter, Gauge, Histogram, type OpenMetricsContentType, register, type Registry } from 'prom-client';
import { type OptionTable } from '../core/option-checks.js';
import { findLockService } from './lock-services.js';
import {
  boundsOf,
  type BucketOptions,
  checkExporterOptions,
  CONNECTIONS,
  type ConnectionsOption,
  LOCK_METRICS,
  type LockMetric,
  type LockSource,
  measureLocks,
  METRIC_NAMES,
  type MetricLabels,
  objectWith,
  type RecordMetric,
  sharedRuns,
} from './measure-locks.js';

export type { BucketOptions, ConnectionsOption, LockSource } from './measure-locks.js';

/** A registry of either text format; internal. */
type AnyRegistry = Registry | Registry<OpenMetricsContentType>;

/** The options of `collectLockMetrics`. The first service in a registry sets the buckets; later ones share its histograms. */
export interface CollectLockMetricsOptions extends BucketOptions {
  /**
   * Where the metrics are registered.
   * @default the global `register` of prom-client
   */
  registry?: AnyRegistry;
}

/** The options of `PrometheusLockModule`. */
export interface PrometheusLockModuleOptions extends CollectLockMetricsOptions, ConnectionsOption {}

const TABLE = {
  registry: objectWith('a Registry of prom-client', 'getSingleMetric', 'registerMetric'),
} satisfies OptionTable<Pick<CollectLockMetricsOptions, 'registry'>>;
const shareRun = sharedRuns();

/**
 * Collects the metrics of a lock service: `redis_lock_acquire_duration_seconds`, `redis_lock_hold_duration_seconds`,
 * `redis_lock_held`, `redis_lock_waiting`, `redis_lock_renewals_total`, `redis_lock_leading`, `redis_lock_elections_total`.
 * Several services can share a registry; a service that is collected twice counts once.
 * @returns a function that stops, and subtracts what it counted as held, led and waiting
 * @throws LockConfigurationError
 */
export function collectLockMetrics(locks: LockSource, options: CollectLockMetricsOptions = {}): () => void {
  const own = checkExporterOptions(options, 'collectLockMetrics', TABLE);
  const { registry = register } = own;
  return shareRun(locks.events, registry, () => measureLocks(locks, recorderOf(registry, own)));
}

type AnyMetric = Counter | Gauge | Histogram;

/** The series of a metric in a registry, of all services and of every copy of the package; `level` is the value of a gauge. */
type Series = Map<string, { readonly labels: MetricLabels; level: number }>;

const ALL_SERIES = Symbol.for('nestjs-redis-lock:prometheus-series');

/**
 * Writes measurements into a registry. Existing metrics are used, so several services share them. When they are
 * reset, or the registry is cleared, their series start over: counters and histograms at 0, gauges with the present number of
 * locks and waiters.
 */
function recorderOf(registry: AnyRegistry, buckets: BucketOptions): RecordMetric {
  const all = ((registry as { [ALL_SERIES]?: Map<string, Series> })[ALL_SERIES] ??= new Map<string, Series>());
  for (const name of METRIC_NAMES) if (!all.has(name)) all.set(name, new Map());
  const find = (name: LockMetric) =>
    registry.getSingleMetric(LOCK_METRICS[name].prometheusName) as AnyMetric | undefined;
  const registerAll = (): void => {
    for (const name of METRIC_NAMES) if (!find(name)) keepSeries(createMetric(name, registry, buckets), all.get(name)!);
  };
  registerAll();
  return (name, value, labels) => {
    if (!find(name)) registerAll();
    const series = all.get(name)!;
    const id = JSON.stringify(LOCK_METRICS[name].labels.map((label) => labels[label]));
    const one = series.get(id) ?? { labels, level: 0 };
    series.set(id, one);
    one.level += value;
    const metric = find(name)!;
    if ('observe' in metric) metric.observe(labels, value);
    else metric.inc(labels, value);
  };
}

function createMetric(name: LockMetric, registry: AnyRegistry, buckets: BucketOptions): AnyMetric {
  const { kind, prometheusName, description, labels } = LOCK_METRICS[name];
  const configuration = { name: prometheusName, help: description, labelNames: [...labels], registers: [registry] };
  if (kind === 'gauge') return new Gauge(configuration);
  if (kind === 'counter') return new Counter(configuration);
  return new Histogram({ ...configuration, buckets: boundsOf(LOCK_METRICS[name], buckets) });
}

/** Starts the series, now and at each reset. */
function keepSeries(metric: AnyMetric, series: Series): void {
  const reset = metric.reset.bind(metric);
  metric.reset = () => {
    reset();
    for (const { labels, level } of series.values()) {
      if ('observe' in metric) metric.zero(labels);
      else if ('set' in metric) metric.set(labels, level);
      else metric.inc(labels, 0);
    }
  };
  metric.reset();
}

/** Provider token of the options; internal. */
const OPTIONS = Symbol.for('nestjs-redis-lock:prometheus-options');

/** Collects the metrics of the app's locks while the app runs: import it together with `RedisLockModule`. */
@Module({})
export class PrometheusLockModule implements OnModuleInit, OnApplicationShutdown {
  readonly #stops: (() => void)[] = [];

  /** Internal: Nest calls it. */
  constructor(
    @Inject(ModuleRef) private readonly moduleRef: ModuleRef,
    @Inject(OPTIONS) private readonly options: PrometheusLockModuleOptions,
  ) {}

  /** @throws LockConfigurationError */
  static forRoot(options: PrometheusLockModuleOptions = {}): DynamicModule {
    const own = checkExporterOptions(options, 'PrometheusLockModule', { ...TABLE, connections: CONNECTIONS });
    return { module: PrometheusLockModule, providers: [{ provide: OPTIONS, useValue: own }] };
  }

  onModuleInit(): void {
    const { connections = [undefined], ...options } = this.options;
    const services = connections.map((name) => findLockService(this.moduleRef, name, 'PrometheusLockModule'));
    for (const locks of services) this.#stops.push(collectLockMetrics(locks, options));
  }

  /** Runs after all modules were destroyed, so locks are still counted while the app drains. */
  onApplicationShutdown(): void {
    for (const stop of this.#stops.splice(0)) stop();
  }
}
