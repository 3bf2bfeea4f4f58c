import { type DynamicModule, Inject, Module, type OnApplicationShutdown, type OnModuleInit } from '@nestjs/common';
import { ModuleRef } from '@nestjs/core';
import { type Attributes, type MeterProvider, metrics, trace, type TracerProvider } from '@opentelemetry/api';
import { findLockService } from './lock-services.js';
import {
  ACQUIRE_BUCKETS,
  HOLD_BUCKETS,
  LOCK_METRICS,
  type MetricDefinition,
  type MetricLabels,
} from './lock-metrics.js';
import { type LockSource, measureLocks, type RecordMetric } from './measure-locks.js';
import {
  BUCKET_NAMES,
  type BucketOptions,
  checkExporterOptions,
  type ConnectionsOption,
} from './observability-options.js';
import { type SpanOptions, traceLocks } from './opentelemetry-spans.js';
import { sharedRuns } from './shared-runs.js';

export type { LockSource } from './measure-locks.js';
export type { BucketOptions, ConnectionsOption } from './observability-options.js';
export type { SpanOptions } from './opentelemetry-spans.js';

/** How to instrument locks. The global providers are those registered at the time of the call. */
export interface InstrumentLocksOptions extends BucketOptions, SpanOptions {
  /** @default the global one of `@opentelemetry/api` */
  meterProvider?: MeterProvider;
  /** @default the global one of `@opentelemetry/api` */
  tracerProvider?: TracerProvider;
}

/** The options of `OpenTelemetryLockModule`. */
export interface OpenTelemetryLockModuleOptions extends InstrumentLocksOptions, ConnectionsOption {}

const OWN_NAMES = { meterProvider: true, tracerProvider: true, recordKeys: true } as const;
const NAMES = { ...OWN_NAMES, ...BUCKET_NAMES } satisfies Record<keyof InstrumentLocksOptions, true>;
const MODULE_NAMES = { ...OWN_NAMES, connections: true, ...BUCKET_NAMES } satisfies Record<
  keyof OpenTelemetryLockModuleOptions,
  true
>;
const shareMeasuring = sharedRuns();
const shareTracing = sharedRuns();

/**
 * Gives OpenTelemetry the metrics `redis_lock.acquire.duration`, `redis_lock.hold.duration` (s), `redis_lock.held`
 * ({lock}), `redis_lock.waiting` ({waiter}), `redis_lock.renewals` ({renewal}), `redis_lock.leading` ({leader}), `redis_lock.elections` ({election}), and a span `lock.acquire <key template>`
 * of every acquisition. Start the SDK first. A service that is instrumented twice counts once.
 * @returns a function that stops, and subtracts what it counted as held, led and waiting
 * @throws LockConfigurationError for a wrong option
 */
export function instrumentLocks(locks: LockSource, options: InstrumentLocksOptions = {}): () => void {
  const own = checkExporterOptions(options, 'instrumentLocks', NAMES);
  const { meterProvider = metrics.getMeterProvider(), tracerProvider = trace.getTracerProvider() } = own;
  const measure = () => measureLocks(locks, recorderOf(meterProvider, own));
  const stops = [
    shareMeasuring(locks.events, meterProvider, measure),
    shareTracing(locks.events, tracerProvider, () => traceLocks(locks, tracerProvider, own)),
  ];
  return () => {
    for (const stop of stops) stop();
  };
}

function recorderOf(provider: MeterProvider, { acquireBuckets, holdBuckets }: BucketOptions): RecordMetric {
  const meter = provider.getMeter('nestjs-redis-lock');
  const { acquireDuration, holdDuration, held, waiting, renewals, leading, elections } = LOCK_METRICS;
  const histogram = ({ name, ...about }: MetricDefinition, bounds: readonly number[]) => {
    const advice = { explicitBucketBoundaries: [...bounds] };
    const instrument = meter.createHistogram(name, { ...describe(about), advice });
    return (value: number, attributes: Attributes): void => instrument.record(value, attributes);
  };
  const upDownCounter = ({ name, ...about }: MetricDefinition) => {
    const instrument = meter.createUpDownCounter(name, describe(about));
    return (value: number, attributes: Attributes): void => instrument.add(value, attributes);
  };
  const counter = ({ name, ...about }: MetricDefinition) => {
    const instrument = meter.createCounter(name, describe(about));
    return (value: number, attributes: Attributes): void => instrument.add(value, attributes);
  };
  const recorders = {
    acquireDuration: histogram(acquireDuration, acquireBuckets ?? ACQUIRE_BUCKETS),
    holdDuration: histogram(holdDuration, holdBuckets ?? HOLD_BUCKETS),
    held: upDownCounter(held),
    waiting: upDownCounter(waiting),
    renewals: counter(renewals),
    leading: upDownCounter(leading),
    elections: counter(elections),
  };
  return (metric, value, labels, errorType) => recorders[metric](value, attributesOf(labels, errorType));
}

const describe = ({ unit, description }: Pick<MetricDefinition, 'unit' | 'description'>) => ({ unit, description });

function attributesOf(labels: MetricLabels, errorType: string | undefined): Attributes {
  const attributes: Attributes = {};
  for (const [name, value] of Object.entries(labels)) attributes[`redis_lock.${name}`] = value;
  if (errorType !== undefined) attributes['error.type'] = errorType;
  return attributes;
}

/** Provider token of the options; internal. */
const OPTIONS = Symbol.for('nestjs-redis-lock:opentelemetry-options');

/** Instruments the app's locks while the app runs: import it beside `RedisLockModule`. */
@Module({})
export class OpenTelemetryLockModule implements OnModuleInit, OnApplicationShutdown {
  readonly #stops: (() => void)[] = [];

  /** Internal: Nest calls it. */
  constructor(
    @Inject(ModuleRef) private readonly moduleRef: ModuleRef,
    @Inject(OPTIONS) private readonly options: OpenTelemetryLockModuleOptions,
  ) {}

  /** @throws LockConfigurationError for a wrong option, and at the start of the app when a connection has no module */
  static forRoot(options: OpenTelemetryLockModuleOptions = {}): DynamicModule {
    const own = checkExporterOptions(options, 'OpenTelemetryLockModule', MODULE_NAMES);
    return { module: OpenTelemetryLockModule, providers: [{ provide: OPTIONS, useValue: own }] };
  }

  onModuleInit(): void {
    const { connections = [undefined], ...options } = this.options;
    const services = connections.map((name) => findLockService(this.moduleRef, name, 'OpenTelemetryLockModule'));
    for (const locks of services) this.#stops.push(instrumentLocks(locks, options));
  }

  /** Runs after all modules were destroyed, so that locks are still counted while the app drains. */
  onApplicationShutdown(): void {
    for (const stop of this.#stops.splice(0)) stop();
  }
}
