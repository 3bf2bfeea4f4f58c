import 'reflect-metadata';
import { type OpenMetricsContentType, register, Registry } from 'prom-client';
import {
  collectLockMetrics,
  type CollectLockMetricsOptions,
  PrometheusLockModule,
} from '../../../lib/observability/prometheus.js';
import { closeAll, freshKey, startApp } from '../../support/apps/lock-app.js';
import { SOME_SECONDS, startCast, STORY, tellStory } from '../../unit/observability/lock-story.js';
import { getLockServiceToken, RedisLockModule, type RedisLockService } from '../../../lib/index.js';
import { startError } from '../../unit/observability/start-error.js';
import { redisUrl } from '../../support/topologies/topology.js';

const stops: (() => void)[] = [];

afterEach(async () => {
  for (const stop of stops.splice(0)) stop();
  await closeAll();
  register.clear();
});

/** Collects until the end of the test. */
function collect(locks: Parameters<typeof collectLockMetrics>[0], options: CollectLockMetricsOptions): () => void {
  const stop = collectLockMetrics(locks, options);
  stops.push(stop);
  return stop;
}

/** The lines of a scrape that begin with `prefix`, without their help; each as `name{labels in order} value`. */
async function scrape(registry: Pick<Registry, 'metrics'>, prefix = 'redis_lock_'): Promise<string[]> {
  const lines = (await registry.metrics()).split('\n').filter((line) => line.startsWith(prefix));
  const inOrder = (line: string): string =>
    line.replace(/\{(.*)\}/, (_, labels: string) => `{${labels.split(',').sort().join(',')}}`);
  return lines.map(inOrder);
}

const labels = (template: string, mode: string, outcome?: string): string =>
  `connection="default",key_template="${template}",mode="${mode}"${outcome ? `,outcome="${outcome}"` : ''}`;

/** The value of one line. */
const valueOf = (lines: readonly string[], series: string): number =>
  Number(
    lines
      .find((line) => line.startsWith(`${series} `))!
      .split(' ')
      .at(-1),
  );

describe('a scrape, after one event of each kind', () => {
  it('has every metric with its name, its labels and the right values, and durations in seconds, in buckets', async () => {
    const registry = new Registry();
    const cast = await startCast();
    collect(cast.locks, { registry });
    let waited = 0;
    cast.locks.events.on('acquired', (event) => {
      if (event.template !== undefined && event.mode === 'write') waited += event.waitedMs / 1_000;
    });
    const seen: Record<string, string[]> = {};
    await tellStory(cast, {
      whileWaiting: async () => void (seen.waiting = await scrape(registry, 'redis_lock_waiting')),
      whileHeld: async () => void (seen.held = await scrape(registry, 'redis_lock_held')),
    });
    expect(seen.waiting).toEqual([`redis_lock_waiting{${labels('order:<0>', 'write')}} 1`]);
    expect(seen.held).toContain(`redis_lock_held{${labels('other', 'write')}} 1`);
    expect(seen.held).toContain(`redis_lock_held{${labels('order:<0>', 'write')}} 0`);

    const counts = (metric: string, rows: typeof STORY.acquire | typeof STORY.hold): string[] =>
      rows.map(([template, mode, outcome, n]) => `${metric}_count{${labels(template, mode, outcome)}} ${n}`).sort();
    const [acquire, hold] = ['redis_lock_acquire_duration_seconds', 'redis_lock_hold_duration_seconds'];
    expect((await scrape(registry, `${acquire}_count`)).sort()).toEqual(counts(acquire, STORY.acquire));
    expect((await scrape(registry, `${hold}_count`)).sort()).toEqual(counts(hold, STORY.hold));
    for (const gauge of ['held', 'waiting'] as const) {
      const zeros = STORY[gauge].map(([template, mode]) => `redis_lock_${gauge}{${labels(template, mode)}} 0`);
      expect((await scrape(registry, `redis_lock_${gauge}`)).sort()).toEqual(zeros.sort());
    }
    expect((await scrape(registry, 'redis_lock_renewals_total')).sort()).toEqual([
      'redis_lock_renewals_total{connection="default",outcome="lost"} 1',
      'redis_lock_renewals_total{connection="default",outcome="renewed"} 1',
      'redis_lock_renewals_total{connection="default",outcome="unknown"} 1',
    ]);

    const lines = await scrape(registry);
    const series = labels('order:<0>', 'write', 'acquired');
    expect(valueOf(lines, `${acquire}_sum{${series}}`)).toBeCloseTo(waited, 6);
    expect(waited).toBeGreaterThanOrEqual(SOME_SECONDS);
    expect(valueOf(lines, `${hold}_sum{${labels('other', 'write', 'released')}}`)).toBeGreaterThanOrEqual(SOME_SECONDS);
    const upTo = (le: string) => valueOf(lines, `${acquire}_bucket{${series.replace(',mode', `,le="${le}",mode`)}}`);
    // One call of the two has waited, and longer than the bound of the first buckets.
    expect(upTo('0.025')).toBeLessThan(2);
    expect([upTo('300'), upTo('+Inf')]).toEqual([2, 2]);
  });
});

describe('metrics for Prometheus', () => {
  it('contain no keys', async () => {
    const registry = new Registry();
    const { locks } = await startApp();
    collect(locks, { registry });
    const key = freshKey();
    await locks.withLock(key, () => undefined);
    const text = await registry.metrics();
    expect(text).toContain('key_template="other"');
    expect(text).not.toContain(key);
  });

  it('use the buckets that you choose', async () => {
    const registry = new Registry();
    const { locks } = await startApp();
    collect(locks, { registry, acquireBuckets: [7, 70], holdBuckets: [8] });
    await locks.withLock(freshKey(), () => undefined);
    const bounds = async (metric: string): Promise<string[]> =>
      (await scrape(registry, `redis_lock_${metric}_duration_seconds_bucket`)).map(
        (line) => /le="(.+?)"/.exec(line)![1]!,
      );
    expect(await bounds('acquire')).toEqual(['7', '70', '+Inf']);
    expect(await bounds('hold')).toEqual(['8', '+Inf']);
  });

  it('count a service that is collected twice only once, until both have stopped', async () => {
    const registry = new Registry();
    const { locks } = await startApp();
    const [first, second] = [collect(locks, { registry }), collect(locks, { registry })];
    const count = async (): Promise<number> => {
      await locks.withLock(freshKey(), () => undefined);
      const series = `redis_lock_acquire_duration_seconds_count{${labels('other', 'write', 'acquired')}}`;
      return valueOf(await scrape(registry), series);
    };
    expect(await count()).toBe(1);
    first();
    first();
    expect(await count()).toBe(2);
    second();
    expect(await count()).toBe(2);
  });

  it('can be scraped as OpenMetrics', async () => {
    const registry = new Registry<OpenMetricsContentType>();
    registry.setContentType(Registry.OPENMETRICS_CONTENT_TYPE);
    const [a, b] = [await startApp(), await startApp()];
    collect(a.locks, { registry });
    await scrape(registry);
    // The scrape renames the counter, which is still the same one.
    collect(b.locks, { registry });
    expect(await scrape(registry, 'redis_lock_renewals_total')).toHaveLength(3);
  });
});

type Series = ReadonlyMap<string, number>;

/** The values of a seriesOf by series. */
async function seriesOf(registry: Registry): Promise<Series> {
  const lines = (await registry.metrics()).split('\n').filter((line) => line.startsWith('redis_lock_'));
  return new Map(
    lines.map((line) => [line.slice(0, line.lastIndexOf(' ')), Number(line.slice(line.lastIndexOf(' ')))]),
  );
}

/** The sum of a gauge over its series. */
const levelOf = (series: Series, gauge: 'held' | 'waiting'): number =>
  [...series].reduce((sum, [name, value]) => (name.startsWith(`redis_lock_${gauge}{`) ? sum + value : sum), 0);

const levelsOf = async (registry: Registry): Promise<readonly number[]> => {
  const series = await seriesOf(registry);
  return [levelOf(series, 'held'), levelOf(series, 'waiting')];
};

/** An app that holds a lock for which another call waits, after one call of each kind that has ended. */
async function startBusy(registry: Registry) {
  const app = await startApp();
  stops.push(collectLockMetrics(app.locks, { registry }));
  await app.locks.withLock(freshKey(), { leaseMs: 20_000 }, (lock) => lock.extend(30_000));
  const waits = new Promise((resolve) => app.locks.events.on('waiting', resolve));
  const key = freshKey();
  const held = await app.locks.acquire(key);
  const waiting = app.locks.acquire(key);
  await waits;
  return { app, held, waiting };
}

async function endBoth({ held, waiting }: Awaited<ReturnType<typeof startBusy>>): Promise<void> {
  await held.release();
  await (await waiting).release();
}

describe('metrics that are reset', () => {
  it('continue from the current numbers of held and waiting', async () => {
    const registry = new Registry();
    const busy = await startBusy(registry);
    expect(await levelsOf(registry)).toEqual([1, 1]);
    registry.resetMetrics();
    expect(await levelsOf(registry)).toEqual([1, 1]);
    registry.getSingleMetric('redis_lock_held')!.reset();
    await endBoth(busy);
    expect(await levelsOf(registry)).toEqual([0, 0]);
    registry.resetMetrics();
    expect(await levelsOf(registry)).toEqual([0, 0]);
  });

  it('keep their series, and count from 0', async () => {
    const registry = new Registry();
    const busy = await startBusy(registry);
    const before = await seriesOf(registry);
    registry.resetMetrics();
    const after = await seriesOf(registry);
    expect([...after.keys()]).toEqual([...before.keys()]);
    const counted = [...after].filter(([name]) => !/^redis_lock_(held|waiting)\{/.test(name));
    expect(counted.filter(([, value]) => value !== 0)).toEqual([]);
    await endBoth(busy);
    const counts = [...(await seriesOf(registry))].filter(([name]) =>
      name.startsWith('redis_lock_hold_duration_seconds_count'),
    );
    expect(counts.map(([, value]) => value)).toEqual([2]);
  });

  it('are reset for all services that share the registry', async () => {
    const registry = new Registry();
    const busy = [await startBusy(registry), await startBusy(registry)];
    registry.resetMetrics();
    expect(await levelsOf(registry)).toEqual([2, 2]);
    for (const one of busy) await endBoth(one);
    expect(await levelsOf(registry)).toEqual([0, 0]);
  });
});

describe('a registry that is cleared', () => {
  it('has the metrics again with the next event, with the current numbers of held and waiting', async () => {
    const registry = new Registry();
    const busy = await startBusy(registry);
    const before = await seriesOf(registry);
    registry.clear();
    expect((await seriesOf(registry)).size).toBe(0);
    await busy.app.locks.withLock(freshKey(), async () => {
      expect(await levelsOf(registry)).toEqual([2, 1]);
    });
    await endBoth(busy);
    const after = await seriesOf(registry);
    expect(await levelsOf(registry)).toEqual([0, 0]);
    expect([...after.keys()]).toEqual(expect.arrayContaining([...before.keys()]));
  });
});

const jobsModule = (): ReturnType<typeof RedisLockModule.forRoot> =>
  RedisLockModule.forRoot({ name: 'jobs', connection: redisUrl(), drainMs: 100, isGlobal: false });

/** How many acquisitions a registry has, by connection. */
async function acquisitions(registry: Registry): Promise<Record<string, number>> {
  const metric = registry.getSingleMetric('redis_lock_acquire_duration_seconds')!;
  const { values } = await metric.get();
  const counts = values.filter((value) => (value as { metricName?: string }).metricName?.endsWith('_count'));
  return Object.fromEntries(counts.map(({ labels, value }) => [labels.connection, value]));
}

describe('PrometheusLockModule', () => {
  it('collects the default connection into the global registry, from the start of the app on', async () => {
    const { locks } = await startApp({}, { imports: [PrometheusLockModule.forRoot()] });
    expect(await register.metrics()).toContain('redis_lock_renewals_total{connection="default",outcome="lost"} 0');
    await locks.withLock(freshKey(), () => undefined);
    expect(await acquisitions(register)).toEqual({ default: 1 });
  });

  it('collects the connections that it is given, even of modules that are not global', async () => {
    const registry = new Registry();
    const imports = [jobsModule(), PrometheusLockModule.forRoot({ registry, connections: [undefined, 'jobs'] })];
    const { app } = await startApp({}, { imports });
    const [locks, jobs] = [undefined, 'jobs'].map((name) => app.get<RedisLockService>(getLockServiceToken(name)));
    for (const one of [locks!, jobs!, jobs!]) await one.withLock(freshKey(), () => undefined);
    expect(await acquisitions(registry)).toEqual({ default: 1, jobs: 2 });
  });

  it('still counts while an app closes, and leaves nothing held or waiting', async () => {
    const registry = new Registry();
    const { app, locks } = await startApp({}, { imports: [PrometheusLockModule.forRoot({ registry })] });
    await locks.acquire(freshKey());
    await app.close();
    const text = await registry.metrics();
    const labels = 'connection="default",key_template="other",mode="write"';
    expect(text).toContain(`redis_lock_hold_duration_seconds_count{${labels},outcome="lost"} 1`);
    expect(text).toContain(`redis_lock_held{${labels}} 0`);
  });

  it('does not start with an unknown connection, and names what to import', async () => {
    const imports = [PrometheusLockModule.forRoot({ registry: new Registry(), connections: ['jobs'] })];
    const error = await startError(imports);
    expect(error).toMatchObject({ code: 'LOCK_CONFIGURATION' });
    expect(error.message).toMatch(/PrometheusLockModule.*"jobs".*RedisLockModule\.forRoot\(\{ name: 'jobs' \}\)/);
  });
});
