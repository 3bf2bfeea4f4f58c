import { Registry } from 'prom-client';
import { collectLockMetrics } from '../../../lib/observability/prometheus.js';
import { closeAll, freshKey, startApp } from '../../support/apps/lock-app.js';

const stops: (() => void)[] = [];

afterEach(async () => {
  for (const stop of stops.splice(0)) stop();
  await closeAll();
});

type Series = ReadonlyMap<string, number>;

/** The values of a scrape by series. */
async function scrape(registry: Registry): Promise<Series> {
  const lines = (await registry.metrics()).split('\n').filter((line) => line.startsWith('redis_lock_'));
  return new Map(
    lines.map((line) => [line.slice(0, line.lastIndexOf(' ')), Number(line.slice(line.lastIndexOf(' ')))]),
  );
}

/** The sum of a gauge over its series. */
const levelOf = (series: Series, gauge: 'held' | 'waiting'): number =>
  [...series].reduce((sum, [name, value]) => (name.startsWith(`redis_lock_${gauge}{`) ? sum + value : sum), 0);

const levelsOf = async (registry: Registry): Promise<readonly number[]> => {
  const series = await scrape(registry);
  return [levelOf(series, 'held'), levelOf(series, 'waiting')];
};

/** An app that holds a lock for which another call waits, after one of each that is over. */
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
  it('go on from the current numbers of held and waiting', async () => {
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
    const before = await scrape(registry);
    registry.resetMetrics();
    const after = await scrape(registry);
    expect([...after.keys()]).toEqual([...before.keys()]);
    const counted = [...after].filter(([name]) => !/^redis_lock_(held|waiting)\{/.test(name));
    expect(counted.filter(([, value]) => value !== 0)).toEqual([]);
    await endBoth(busy);
    const counts = [...(await scrape(registry))].filter(([name]) =>
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
    const before = await scrape(registry);
    registry.clear();
    expect((await scrape(registry)).size).toBe(0);
    await busy.app.locks.withLock(freshKey(), async () => {
      expect(await levelsOf(registry)).toEqual([2, 1]);
    });
    await endBoth(busy);
    const after = await scrape(registry);
    expect(await levelsOf(registry)).toEqual([0, 0]);
    expect([...after.keys()]).toEqual(expect.arrayContaining([...before.keys()]));
  });
});
