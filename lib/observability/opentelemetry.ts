import { type DynamicModule, Inject, Module, type OnApplicationShutdown, type OnModuleInit } from '@nestjs/common';
import { ModuleRef } from '@nestjs/core';
import {
  type Attributes,
  type Meter,
  type MeterProvider,
  metrics,
  type Span,
  SpanKind,
  SpanStatusCode,
  trace,
  type Tracer,
  type TracerProvider,
} from '@opentelemetry/api';
import { EventListeners } from '../core/event-listeners.js';
import { type HeldLockEvent, type LockEvent, type LockEventMap } from '../core/lock.events.js';
import { BOOLEAN, option, type OptionTable } from '../core/option-checks.js';
import { messageOf } from '../core/reporter.js';
import { findLockService } from './lock-services.js';
import {
  boundsOf,
  type BucketOptions,
  checkExporterOptions,
  connectionOf,
  CONNECTIONS,
  type ConnectionsOption,
  errorTypeOf,
  LOCK_METRICS,
  type LockSource,
  measureLocks,
  METRIC_NAMES,
  type MetricDefinition,
  objectWith,
  outcomeOf,
  partsOf,
  type RecordMetric,
  sharedRuns,
  templateOf,
} from './measure-locks.js';

export type { BucketOptions, ConnectionsOption, LockSource } from './measure-locks.js';

/** The content of the spans. */
export interface SpanOptions {
  /**
   * Whether spans contain the key itself, and the texts of errors, which name it. Keys may contain personal data.
   * @default false
   */
  recordKeys?: boolean;
}

/** The options of `instrumentLocks`. The global providers are those registered at the time of the call. */
export interface InstrumentLocksOptions extends BucketOptions, SpanOptions {
  /** @default the global one of `@opentelemetry/api` */
  meterProvider?: MeterProvider;
  /** @default the global one of `@opentelemetry/api` */
  tracerProvider?: TracerProvider;
}

/** The options of `OpenTelemetryLockModule`. */
export interface OpenTelemetryLockModuleOptions extends InstrumentLocksOptions, ConnectionsOption {}

const TABLE = {
  meterProvider: objectWith('a MeterProvider of OpenTelemetry', 'getMeter'),
  tracerProvider: objectWith('a TracerProvider of OpenTelemetry', 'getTracer'),
  recordKeys: option(BOOLEAN),
} satisfies OptionTable<Omit<InstrumentLocksOptions, keyof BucketOptions>>;
const shareMeasuring = sharedRuns();
const shareTracing = sharedRuns();

/**
 * Gives OpenTelemetry the metrics `redis_lock.acquire.duration`, `redis_lock.hold.duration` (s), `redis_lock.held` ({lock}),
 * `redis_lock.waiting` ({waiter}), `redis_lock.renewals` ({renewal}), `redis_lock.leading` ({leader}), `redis_lock.elections`
 * ({election}), and a span `lock.acquire <key template>` per acquisition. Start the SDK first. A service that is instrumented
 * twice counts once.
 * @returns a function that stops, and subtracts what it counted as held, led and waiting
 * @throws LockConfigurationError
 */
export function instrumentLocks(locks: LockSource, options: InstrumentLocksOptions = {}): () => void {
  const own = checkExporterOptions(options, 'instrumentLocks', TABLE);
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

function recorderOf(provider: MeterProvider, buckets: BucketOptions): RecordMetric {
  const meter = provider.getMeter('nestjs-redis-lock');
  const recorders = new Map(METRIC_NAMES.map((name) => [name, createRecorder(meter, LOCK_METRICS[name], buckets)]));
  return (metric, value, labels, errorType) => {
    const attributes: Attributes = {};
    for (const [name, text] of Object.entries(labels)) attributes[`redis_lock.${name}`] = text;
    if (errorType !== undefined) attributes['error.type'] = errorType;
    recorders.get(metric)!(value, attributes);
  };
}

function createRecorder(meter: Meter, metric: MetricDefinition, buckets: BucketOptions) {
  const { kind, name, unit, description } = metric;
  if (kind === 'histogram') {
    const advice = { explicitBucketBoundaries: boundsOf(metric, buckets) };
    const histogram = meter.createHistogram(name, { unit, description, advice });
    return (value: number, attributes: Attributes): void => histogram.record(value, attributes);
  }
  const about = { unit, description };
  const counter = kind === 'gauge' ? meter.createUpDownCounter(name, about) : meter.createCounter(name, about);
  return (value: number, attributes: Attributes): void => counter.add(value, attributes);
}

/**
 * Creates a span for every acquisition when it ends, as a child of the caller's span. A loss is an event of the span that
 * was active when the lock was acquired or adopted, if that span has not ended, because the work runs under it.
 */
function traceLocks(locks: LockSource, provider: TracerProvider, options: SpanOptions): () => void {
  const tracing = { locks, tracer: provider.getTracer('nestjs-redis-lock'), recordKeys: options.recordKeys ?? false };
  const listeners = new EventListeners(locks.events)
    .on('acquired', (event) => spanOfGrant(tracing, event))
    .on('acquireFailed', (event) => spanOfFailure(tracing, event));
  const holders = reportLosses(tracing, listeners);
  return () => {
    listeners.stop();
    holders.clear();
  };
}

interface Tracing {
  readonly locks: LockSource;
  readonly tracer: Tracer;
  readonly recordKeys: boolean;
}

function attributesOf({ locks, recordKeys }: Tracing, event: LockEvent, outcome: string): Attributes {
  return {
    'redis_lock.connection': connectionOf(locks),
    'redis_lock.key_template': templateOf(event),
    'redis_lock.mode': event.mode,
    'redis_lock.outcome': outcome,
    ...(recordKeys ? { 'redis_lock.key': event.key } : {}),
  };
}

/** The parent is the active span, because the event arrives in the context of the caller. */
function startSpan({ tracer }: Tracing, event: LockEvent, startTime: number, attributes: Attributes): Span {
  return tracer.startSpan(`lock.acquire ${templateOf(event)}`, { kind: SpanKind.INTERNAL, startTime, attributes });
}

function spanOfGrant(tracing: Tracing, event: LockEventMap['acquired']): void {
  const now = Date.now();
  const attributes = { ...attributesOf(tracing, event, 'acquired'), 'redis_lock.fencing_token': event.fencingToken };
  startSpan(tracing, event, now - event.waitedMs, attributes).end(now);
}

function spanOfFailure(tracing: Tracing, event: LockEventMap['acquireFailed']): void {
  const [now, outcome, errorType] = [Date.now(), outcomeOf(event), errorTypeOf(event.error)];
  const attributes = { ...attributesOf(tracing, event, outcome), 'error.type': errorType };
  const span = startSpan(tracing, event, now - event.waitedMs, attributes);
  if (outcome === 'timeout' || outcome === 'error') recordError(span, event.error, { ...tracing, errorType, now });
  span.end(now);
}

/** Adds losses to the spans of the holders; returns those spans, by attempt. */
function reportLosses(tracing: Tracing, listeners: EventListeners): Map<string, Span> {
  const holders = new Map<string, Span>();
  const forget = ({ attempt }: HeldLockEvent): void => void holders.delete(attempt);
  const note = ({ attempt }: HeldLockEvent): void => {
    const holder = trace.getActiveSpan();
    if (holder?.isRecording()) holders.set(attempt, holder);
  };
  listeners
    .on('acquired', note)
    .on('adopted', note)
    .on('lost', (event) => {
      const holder = holders.get(event.attempt);
      if (!holder?.isRecording()) return;
      const loss = { 'redis_lock.lost.reason': event.reason, 'redis_lock.fencing_token': event.fencingToken };
      holder.addEvent('redis_lock.lost', { ...attributesOf(tracing, event, 'lost'), ...loss });
    })
    .on('lost', forget)
    .on('released', forget)
    .on('transferred', forget);
  return holders;
}

/** The text of an error names the key, so it is recorded only with `recordKeys`. */
function recordError(
  span: Span,
  error: unknown,
  { errorType, recordKeys, now }: { readonly errorType: string; readonly recordKeys: boolean; readonly now: number },
): void {
  const { name, message, stack } = partsOf(error) ?? new Error(messageOf(error));
  span.recordException(recordKeys ? { code: errorType, name, message, stack } : { code: errorType, name }, now);
  span.setStatus({ code: SpanStatusCode.ERROR, message: recordKeys ? message : errorType });
}

/** Provider token of the options; internal. */
const OPTIONS = Symbol.for('nestjs-redis-lock:opentelemetry-options');

/** Instruments the app's locks while the app runs: import it together with `RedisLockModule`. */
@Module({})
export class OpenTelemetryLockModule implements OnModuleInit, OnApplicationShutdown {
  readonly #stops: (() => void)[] = [];

  /** Internal: Nest calls it. */
  constructor(
    @Inject(ModuleRef) private readonly moduleRef: ModuleRef,
    @Inject(OPTIONS) private readonly options: OpenTelemetryLockModuleOptions,
  ) {}

  /** @throws LockConfigurationError */
  static forRoot(options: OpenTelemetryLockModuleOptions = {}): DynamicModule {
    const own = checkExporterOptions(options, 'OpenTelemetryLockModule', { ...TABLE, connections: CONNECTIONS });
    return { module: OpenTelemetryLockModule, providers: [{ provide: OPTIONS, useValue: own }] };
  }

  onModuleInit(): void {
    const { connections = [undefined], ...options } = this.options;
    const services = connections.map((name) => findLockService(this.moduleRef, name, 'OpenTelemetryLockModule'));
    for (const locks of services) this.#stops.push(instrumentLocks(locks, options));
  }

  /** Runs after all modules were destroyed, so locks are still counted while the app drains. */
  onApplicationShutdown(): void {
    for (const stop of this.#stops.splice(0)) stop();
  }
}
