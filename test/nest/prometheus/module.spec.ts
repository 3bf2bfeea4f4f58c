import 'reflect-metadata';
import { register, Registry } from 'prom-client';
import { getLockServiceToken, RedisLockModule, type RedisLockService } from '../../../lib/index.js';
import { PrometheusLockModule } from '../../../lib/observability/prometheus.js';
import { startError } from '../../unit/observability/start-error.js';
import { closeAll, freshKey, startApp } from '../../support/apps/lock-app.js';
import { redisUrl } from '../../support/topologies/topology.js';

afterEach(async () => {
  await closeAll();
  register.clear();
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

  it('counts once when it is imported twice, and sums up two apps', async () => {
    const registry = new Registry();
    const collecting = () => PrometheusLockModule.forRoot({ registry });
    const a = await startApp({}, { imports: [collecting(), collecting()] });
    const b = await startApp({}, { imports: [collecting()] });
    for (const { locks } of [a, b]) await locks.withLock(freshKey(), () => undefined);
    expect(await acquisitions(registry)).toEqual({ default: 2 });
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

  it('does not start with an unknown connection, and says what to import', async () => {
    const imports = [PrometheusLockModule.forRoot({ registry: new Registry(), connections: ['jobs'] })];
    const error = await startError(imports);
    expect(error).toMatchObject({ code: 'LOCK_CONFIGURATION' });
    expect(error.message).toMatch(/PrometheusLockModule.*"jobs".*RedisLockModule\.forRoot\(\{ name: 'jobs' \}\)/);
  });
});
