import 'reflect-metadata';
import { jest } from '@jest/globals';
import { Logger } from '@nestjs/common';
import {
  AggregationTemporality,
  InMemoryMetricExporter,
  MeterProvider,
  type MetricData,
  PeriodicExportingMetricReader,
} from '@opentelemetry/sdk-metrics';
import { instrumentLocks, OpenTelemetryLockModule } from '../../../lib/observability/opentelemetry.js';
import { startError } from '../../unit/observability/start-error.js';
import { closeAll, closeLater, freshKey, startApp } from '../../support/apps/lock-app.js';
import { SOME_SECONDS, STORY, startCast, tellStory } from '../../unit/observability/lock-story.js';

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
  it('have the documented names, units and attributes, and the right values', async () => {
    const { meterProvider, metrics } = startMetrics();
    const cast = await startCast();
    stops.push(instrumentLocks(cast.locks, { meterProvider }));
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
  });

  it('record durations in seconds, in buckets that you can choose', async () => {
    const { meterProvider, metrics } = startMetrics();
    const cast = await startCast();
    stops.push(instrumentLocks(cast.locks, { meterProvider, holdBuckets: [8] }));
    let waited = 0;
    cast.locks.events.on('acquired', (event) => {
      if (event.template !== undefined && event.mode === 'write') waited += event.waitedMs / 1_000;
    });
    await tellStory(cast);
    const all = await metrics();
    type Value = { readonly sum: number; readonly buckets: { readonly boundaries: readonly number[] } };
    const valueOf = (name: string, attributes: object): Value => {
      const wanted = Object.entries(attributes);
      const isIt = (point: { attributes: Record<string, unknown> }) =>
        Object.keys(point.attributes).length === wanted.length &&
        wanted.every(([name, value]) => point.attributes[name] === value);
      return all.get(name)!.dataPoints.find(isIt)!.value as unknown as Value;
    };
    const { sum, buckets } = valueOf(NAME, attributesOf('order:<0>', 'write', 'acquired'));
    expect(sum).toBeCloseTo(waited, 6);
    expect(sum).toBeGreaterThanOrEqual(SOME_SECONDS);
    expect([buckets.boundaries[0], buckets.boundaries.at(-1)]).toEqual([0.001, 300]);
    const held = valueOf('redis_lock.hold.duration', attributesOf('other', 'write', 'released'));
    expect(held.sum).toBeGreaterThanOrEqual(SOME_SECONDS);
    expect(held.buckets.boundaries).toEqual([8]);
  });
});

describe('instrumenting', () => {
  it('twice counts once until both have stopped, and then leaves no listener', async () => {
    const { meterProvider, metrics } = startMetrics();
    const { locks } = await startApp();
    const [on, off] = [jest.spyOn(locks.events, 'on'), jest.spyOn(locks.events, 'off')];
    const [first, second] = [instrumentLocks(locks, { meterProvider }), instrumentLocks(locks, { meterProvider })];
    const count = async (): Promise<number> => {
      await locks.withLock(freshKey(), () => undefined);
      return pointsOf((await metrics()).get(NAME))[0]![1];
    };
    expect(await count()).toBe(1);
    first();
    expect(await count()).toBe(2);
    second();
    expect(await count()).toBe(2);
    expect(on.mock.calls.length).toBeGreaterThan(0);
    expect(off.mock.calls).toEqual(expect.arrayContaining(on.mock.calls));
    expect(off.mock.calls).toHaveLength(on.mock.calls.length);
  });

  it('without an SDK does nothing', async () => {
    const { locks } = await startApp();
    stops.push(instrumentLocks(locks));
    expect(await locks.withLock(freshKey(), () => 'value')).toBe('value');
  });

  it('with an exporter that throws does not affect locks', async () => {
    const broken = () => {
      throw new Error('the exporter is broken');
    };
    const instrument = { add: broken, record: broken };
    const meter = { createHistogram: () => instrument, createUpDownCounter: () => instrument };
    const counter = { createCounter: () => ({ add: () => undefined }) };
    const meterProvider = { getMeter: () => ({ ...meter, ...counter }) } as unknown as MeterProvider;
    const tracerProvider = { getTracer: () => ({ startSpan: broken }) } as never;
    const { locks } = await startApp();
    instrumentLocks(locks, { meterProvider, tracerProvider });
    const logged = jest.spyOn(Logger.prototype, 'error').mockClear();
    expect(await locks.withLock(freshKey(), () => 'value')).toBe('value');
    const messages = logged.mock.calls.map(([text]) => String(text));
    logged.mockRestore();
    expect(messages.length).toBeGreaterThan(0);
    for (const message of messages) expect(message).toMatch(/A listener of the lock event .* the exporter is broken/);
  });
});

describe('OpenTelemetryLockModule', () => {
  it('instruments while the app runs, to the end of its locks', async () => {
    const { meterProvider, metrics } = startMetrics();
    const imports = [OpenTelemetryLockModule.forRoot({ meterProvider })];
    const { app, locks } = await startApp({}, { imports });
    await locks.acquire(freshKey());
    await app.close();
    const all = await metrics();
    expect(pointsOf(all.get('redis_lock.hold.duration'))).toEqual([[attributesOf('other', 'write', 'lost'), 1]]);
    expect(pointsOf(all.get('redis_lock.held'))).toEqual([[attributesOf('other', 'write'), 0]]);
  });

  it('does not start with an unknown connection, and says what to import', async () => {
    const error = await startError([OpenTelemetryLockModule.forRoot({ connections: ['jobs'] })]);
    expect(error).toMatchObject({ code: 'LOCK_CONFIGURATION' });
    expect(error.message).toMatch(/OpenTelemetryLockModule.*"jobs".*RedisLockModule\.forRoot\(\{ name: 'jobs' \}\)/);
  });
});
