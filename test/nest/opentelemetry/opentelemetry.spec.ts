import 'reflect-metadata';
import { isDeepStrictEqual } from 'node:util';
import {
  AggregationTemporality,
  InMemoryMetricExporter,
  MeterProvider,
  type MetricData,
  PeriodicExportingMetricReader,
} from '@opentelemetry/sdk-metrics';
import { context, type Span, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  type ReadableSpan,
  SimpleSpanProcessor,
} from '@opentelemetry/sdk-trace-base';
import {
  instrumentLocks,
  type InstrumentLocksOptions,
  OpenTelemetryLockModule,
} from '../../../lib/observability/opentelemetry.js';
import { startError } from '../../unit/observability/start-error.js';
import { closeAll, closeLater, freshKey, type LockApp, startApp } from '../../support/apps/lock-app.js';
import {
  once,
  Orders,
  SOME_SECONDS,
  someTime,
  startCast,
  STORY,
  tellStory,
} from '../../unit/observability/lock-story.js';
import { type LockEventMap } from '../../../lib/index.js';
import { eventually } from '../../support/waiting/eventually.js';
import { gate } from '../../support/waiting/gate.js';
import { rejection } from '../../support/waiting/rejection.js';
import { untilWaiting } from '../../support/waiting/waiters.js';

const stops: (() => void)[] = [];

afterEach(async () => {
  for (const stop of stops.splice(0)) stop();
  await closeAll();
});

const NAME = 'redis_lock.acquire.duration';

/** A real SDK, and what it exports. */
function startMetrics() {
  const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
  // It exports when it is asked to; an hour is longer than any test.
  const reader = new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 3_600_000 });
  const meterProvider = new MeterProvider({ readers: [reader] });
  closeLater({ close: () => meterProvider.shutdown() });
  const metrics = async (): Promise<Map<string, MetricData>> => {
    exporter.reset();
    await meterProvider.forceFlush();
    const all = exporter.getMetrics().flatMap(({ scopeMetrics }) => scopeMetrics.flatMap(({ metrics }) => metrics));
    return new Map(all.map((metric) => [metric.descriptor.name, metric]));
  };
  return { meterProvider, metrics };
}

/** The points of a metric: attributes and value, of a histogram its count. */
const pointsOf = (metric: MetricData | undefined): [object, number][] =>
  (metric?.dataPoints ?? []).map(({ attributes, value }) => [
    attributes,
    typeof value === 'object' ? (value as { count: number }).count : value,
  ]);

const attributesOf = (template: string, mode: string, outcome?: string): object => ({
  'redis_lock.connection': 'default',
  'redis_lock.key_template': template,
  'redis_lock.mode': mode,
  ...(outcome ? { 'redis_lock.outcome': outcome } : {}),
  ...(outcome && ERROR_TYPES[outcome] ? { 'error.type': ERROR_TYPES[outcome] } : {}),
});

/** The value of a histogram with exactly these attributes. */
function durationOf(metric: MetricData | undefined, attributes: object) {
  const found = metric!.dataPoints.find((point) => isDeepStrictEqual(point.attributes, attributes));
  return found!.value as { readonly sum: number; readonly buckets: { readonly boundaries: readonly number[] } };
}

const ERROR_TYPES: Record<string, string | undefined> = {
  busy: 'LOCK_BUSY',
  timeout: 'LOCK_WAIT_TIMEOUT',
  aborted: 'AbortError',
  error: 'LOCK_STORE',
};

const sameRows = (rows: readonly [object, number][], expected: readonly [object, number][]): void => {
  expect(rows).toHaveLength(expected.length);
  expect(rows).toEqual(expect.arrayContaining([...expected]));
};

describe('the metrics of OpenTelemetry, after one event of each kind', () => {
  it('have the documented names, units and attributes, the right values, and the buckets that you choose', async () => {
    const { meterProvider, metrics } = startMetrics();
    const cast = await startCast();
    stops.push(instrumentLocks(cast.locks, { meterProvider, holdBuckets: [8] }));
    let waited = 0;
    cast.locks.events.on('acquired', (event) => {
      if (event.template !== undefined && event.mode === 'write') waited += event.waitedMs / 1_000;
    });
    const seen: Record<string, [object, number][]> = {};
    await tellStory(cast, {
      whileWaiting: async () => void (seen.waiting = pointsOf((await metrics()).get('redis_lock.waiting'))),
      whileHeld: async () => void (seen.held = pointsOf((await metrics()).get('redis_lock.held'))),
    });
    expect(seen.waiting).toEqual([[attributesOf('order:<0>', 'write'), 1]]);
    expect(seen.held).toContainEqual([attributesOf('other', 'write'), 1]);
    expect(seen.held).toContainEqual([attributesOf('order:<0>', 'write'), 0]);

    const all = await metrics();
    const units = [...all].map(([name, { descriptor }]) => [name, descriptor.unit]);
    expect(Object.fromEntries(units)).toEqual({
      [NAME]: 's',
      'redis_lock.hold.duration': 's',
      'redis_lock.held': '{lock}',
      'redis_lock.waiting': '{waiter}',
      'redis_lock.renewals': '{renewal}',
    });
    const counted = (rows: typeof STORY.acquire | typeof STORY.hold): [object, number][] =>
      rows.map(([template, mode, outcome, count]) => [attributesOf(template, mode, outcome), count]);
    sameRows(pointsOf(all.get(NAME)), counted(STORY.acquire));
    sameRows(pointsOf(all.get('redis_lock.hold.duration')), counted(STORY.hold));
    for (const gauge of ['held', 'waiting'] as const) {
      const zeros = STORY[gauge].map(([template, mode]): [object, number] => [attributesOf(template, mode), 0]);
      sameRows(pointsOf(all.get(`redis_lock.${gauge}`)), zeros);
    }
    const renewal = (outcome: string): [object, number] => [
      { 'redis_lock.connection': 'default', 'redis_lock.outcome': outcome },
      1,
    ];
    sameRows(pointsOf(all.get('redis_lock.renewals')), [renewal('renewed'), renewal('unknown'), renewal('lost')]);

    const { sum, buckets } = durationOf(all.get(NAME), attributesOf('order:<0>', 'write', 'acquired'));
    expect(sum).toBeCloseTo(waited, 6);
    expect(sum).toBeGreaterThanOrEqual(SOME_SECONDS);
    expect([buckets.boundaries[0], buckets.boundaries.at(-1)]).toEqual([0.001, 300]);
    const held = durationOf(all.get('redis_lock.hold.duration'), attributesOf('other', 'write', 'released'));
    expect(held.sum).toBeGreaterThanOrEqual(SOME_SECONDS);
    expect(held.buckets.boundaries).toEqual([8]);
  });
});

describe('instrumenting', () => {
  it('without an SDK does nothing', async () => {
    const { locks } = await startApp();
    stops.push(instrumentLocks(locks));
    expect(await locks.withLock(freshKey(), () => 'value')).toBe('value');
  });
});

describe('OpenTelemetryLockModule', () => {
  it('instruments while the app runs, until its locks have ended', async () => {
    const { meterProvider, metrics } = startMetrics();
    const imports = [OpenTelemetryLockModule.forRoot({ meterProvider })];
    const { app, locks } = await startApp({}, { imports });
    await locks.acquire(freshKey());
    await app.close();
    const all = await metrics();
    expect(pointsOf(all.get('redis_lock.hold.duration'))).toEqual([[attributesOf('other', 'write', 'lost'), 1]]);
    expect(pointsOf(all.get('redis_lock.held'))).toEqual([[attributesOf('other', 'write'), 0]]);
  });

  it('does not start with an unknown connection, and names what to import', async () => {
    const error = await startError([OpenTelemetryLockModule.forRoot({ connections: ['jobs'] })]);
    expect(error).toMatchObject({ code: 'LOCK_CONFIGURATION' });
    expect(error.message).toMatch(/OpenTelemetryLockModule.*"jobs".*RedisLockModule\.forRoot\(\{ name: 'jobs' \}\)/);
  });
});

beforeAll(() => void context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable()));
afterAll(() => context.disable());

/** A real SDK, with spans of callers. */
function startTraces() {
  const exporter = new InMemorySpanExporter();
  const tracerProvider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
  closeLater({ close: () => tracerProvider.shutdown() });
  /** Runs `work` as the caller whose span this is. */
  const within = async <T>(name: string, work: (span: Span) => Promise<T>): Promise<T> => {
    const span = tracerProvider.getTracer('test').startSpan(name);
    const result = await context.with(trace.setSpan(context.active(), span), () => work(span));
    span.end();
    return result;
  };
  const spans = (): ReadableSpan[] => exporter.getFinishedSpans();
  const locksOf = (): ReadableSpan[] => spans().filter(({ name }) => name.startsWith('lock.'));
  return { tracerProvider, within, spans, locksOf };
}

async function start(options: Omit<InstrumentLocksOptions, 'tracerProvider'> = {}) {
  const traces = startTraces();
  const [app, other] = [await startApp({}, { providers: [Orders] }), await startApp()];
  stops.push(instrumentLocks(app.locks, { ...options, tracerProvider: traces.tracerProvider }));
  return { ...traces, ...app, other, orders: app.app.get(Orders) };
}

/** Waits for a key that another caller holds until that one releases it. */
async function waitFor(key: string, other: LockApp, work: () => Promise<unknown>): Promise<unknown> {
  const held = await other.locks.acquire(key);
  const waiting = work();
  await untilWaiting(other, key);
  await someTime();
  await held.release();
  return waiting;
}

const secondsOf = ([seconds, nanos]: ReadableSpan['duration']): number => seconds + nanos / 1e9;

describe('the span of an acquisition', () => {
  it('has the template in its name, attributes of the lock, and the time from the call to the grant', async () => {
    const { orders, other, locks, locksOf } = await start();
    const told: LockEventMap['acquired'][] = [];
    locks.events.on('acquired', (event) => told.push(event));
    const id = freshKey();
    const before = Date.now();
    await waitFor(`order:${id}`, other, () => orders.charge(id));
    const [span] = locksOf();
    expect(locksOf()).toHaveLength(1);
    expect(span).toMatchObject({ name: 'lock.acquire order:<0>', kind: SpanKind.INTERNAL, events: [] });
    expect(span!.status.code).toBe(SpanStatusCode.UNSET);
    expect(span!.attributes).toEqual({
      'redis_lock.connection': 'default',
      'redis_lock.key_template': 'order:<0>',
      'redis_lock.mode': 'write',
      'redis_lock.outcome': 'acquired',
      'redis_lock.fencing_token': told[0]!.fencingToken,
    });
    expect(secondsOf(span!.duration)).toBeCloseTo(told[0]!.waitedMs / 1_000, 6);
    expect(told[0]!.waitedMs).toBeGreaterThanOrEqual(30);
    // Its wait is rounded to milliseconds.
    expect(secondsOf(span!.startTime) * 1_000).toBeGreaterThanOrEqual(before - 1);
    expect(secondsOf(span!.endTime) * 1_000).toBeLessThanOrEqual(Date.now() + 1);
  });

  it("is a child of the caller's span: granted at once, after a wait, for a method, and when it fails", async () => {
    const { orders, other, locks, locksOf, spans, within } = await start();
    const [at, waited, failed, id] = [freshKey(), freshKey(), freshKey(), freshKey()];
    const held = await other.locks.acquire(failed);
    // Side by side: each has to find its own caller.
    await Promise.all([
      within('at once', () => locks.withLock(at, () => undefined)),
      within('waited', () => waitFor(waited, other, () => locks.withLock(waited, () => undefined))),
      within('method', () => waitFor(`order:${id}`, other, () => orders.charge(id))),
      within('failed', () => rejection(locks.acquire(failed, { waitMs: 40 }))),
      within('busy', () => locks.tryAcquire(failed)),
    ]);
    await locks.withLock(freshKey(), () => undefined);
    await held.release();
    const nameOf = (id: string | undefined) => spans().find((span) => span.spanContext().spanId === id)?.name;
    const children = locksOf().map((span) => [
      nameOf(span.parentSpanContext?.spanId),
      span.attributes['redis_lock.outcome'],
    ]);
    expect(children).toHaveLength(6);
    expect(children).toEqual(
      expect.arrayContaining([
        ['at once', 'acquired'],
        ['waited', 'acquired'],
        ['method', 'acquired'],
        ['failed', 'timeout'],
        ['busy', 'busy'],
        [undefined, 'acquired'],
      ]),
    );
  });

  it('is an error with its exception after a time-out or without Redis, and not when busy or aborted', async () => {
    const { tracerProvider, locksOf } = startTraces();
    const { locks, other, withoutRedis } = await startCast();
    stops.push(instrumentLocks(locks, { tracerProvider, recordKeys: true }));
    const held = await other.locks.acquire(freshKey());
    await locks.tryAcquire(held.key);
    await rejection(locks.acquire(held.key, { signal: AbortSignal.abort() }));
    const timeout = await rejection(locks.acquire(held.key, { waitMs: 20 }));
    const errors = [timeout];
    await withoutRedis(async () => void errors.push(await rejection(locks.acquire(freshKey(), { waitMs: 0 }))));
    await held.release();
    const told = locksOf().map(({ attributes, status, events }) => ({
      type: attributes['error.type'],
      status,
      exceptions: events.map(({ name, attributes }) => [
        name,
        attributes!['exception.type'],
        attributes!['exception.message'],
      ]),
    }));
    const quiet = { status: { code: SpanStatusCode.UNSET }, exceptions: [] };
    const failed = (type: string, { message }: Error) => ({
      type,
      status: { code: SpanStatusCode.ERROR, message },
      exceptions: [['exception', type, message]],
    });
    expect(told).toEqual([
      { type: 'LOCK_BUSY', ...quiet },
      { type: 'AbortError', ...quiet },
      failed('LOCK_WAIT_TIMEOUT', errors[0]!),
      failed('LOCK_STORE', errors[1]!),
    ]);
  });

  it('contains the key only with recordKeys, even where an error names it', async () => {
    for (const recordKeys of [false, true]) {
      const { locks, other, spans, within } = await start({ recordKeys });
      const held = await other.locks.acquire(freshKey('secret'));
      await within('caller', () => rejection(locks.acquire(held.key, { waitMs: 20 })));
      const lost = freshKey('secret');
      await within('holder', async () => {
        const { signal } = await locks.acquire(lost);
        await other.locks.forceRelease(lost);
        await eventually(() => signal.aborted);
      });
      const facts = spans().map(({ name, attributes, status, events }) => ({ name, attributes, status, events }));
      const text = JSON.stringify(facts);
      expect(facts.map(({ name }) => name)).toEqual(expect.arrayContaining(['caller', 'lock.acquire other']));
      expect(facts.flatMap(({ events }) => events)).toHaveLength(2);
      expect([text.includes(held.key), text.includes(lost)]).toEqual([recordKeys, recordKeys]);
      if (recordKeys) expect(facts[0]!.attributes['redis_lock.key']).toBe(held.key);
      await held.release();
    }
  });

  it('is created once when a service is instrumented twice, and not after the end', async () => {
    const { locks, locksOf, tracerProvider } = await start();
    const again = instrumentLocks(locks, { tracerProvider });
    await locks.withLock(freshKey(), () => undefined);
    expect(locksOf()).toHaveLength(1);
    again();
    for (const stop of stops.splice(0)) stop();
    await locks.withLock(freshKey(), () => undefined);
    expect(locksOf()).toHaveLength(1);
  });
});

describe('a loss', () => {
  it('is an event of the span under which the lock was acquired, rather than a separate span', async () => {
    const { orders, locks, other, within, spans, locksOf } = await start();
    const [id, started] = [freshKey(), gate()];
    const tokens: number[] = [];
    locks.events.on('acquired', ({ fencingToken }) => {
      tokens.push(fencingToken);
      started.open();
    });
    await within('caller', async () => {
      const charged = rejection(orders.charge(id, once(locks, 'lost')));
      await started.opened;
      await other.locks.forceRelease(`order:${id}`);
      await charged;
    });
    const [event] = spans().find(({ name }) => name === 'caller')!.events;
    expect(event).toMatchObject({ name: 'redis_lock.lost' });
    expect(event!.attributes).toEqual({
      'redis_lock.connection': 'default',
      'redis_lock.key_template': 'order:<0>',
      'redis_lock.mode': 'write',
      'redis_lock.outcome': 'lost',
      'redis_lock.lost.reason': 'revoked',
      'redis_lock.fencing_token': tokens[0],
    });
    expect(locksOf()).toHaveLength(1);
  });

  it('is not added to a span that has ended', async () => {
    const { locks, other, within, spans } = await start();
    const lock = await within('caller', () => locks.acquire(freshKey()));
    const { signal } = lock;
    await other.locks.forceRelease(lock.key);
    await eventually(() => signal.aborted);
    expect(spans().flatMap(({ events }) => events)).toEqual([]);
  });
});
