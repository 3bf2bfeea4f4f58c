import 'reflect-metadata';
import { Controller, Get, Inject, Module } from '@nestjs/common';
import { HealthCheck, HealthCheckService, TerminusModule } from '@nestjs/terminus';
import { getLockServiceToken, RedisLockModule, type RedisLockService } from '../../lib/index.js';
import { LockHealthIndicator, type LockHealthOptions } from '../../lib/observability/terminus.js';
import { eventually } from '../support/waiting/eventually.js';
import { disconnect, FREEZE_MS, ownRedis, proxyTo } from '../support/redis/own-redis.js';
import { closeAll, freshKey, startApp } from '../support/apps/lock-app.js';
import { untilWaiting } from '../support/waiting/waiters.js';
import { startPlain } from './support/requests.js';
import { redisUrl } from '../support/topologies/topology.js';
import { rejection } from '../support/waiting/rejection.js';

afterEach(closeAll);

@Controller()
class HealthController {
  constructor(
    @Inject(HealthCheckService) private readonly health: HealthCheckService,
    @Inject(LockHealthIndicator) private readonly locks: LockHealthIndicator,
  ) {}

  @Get('health')
  @HealthCheck()
  check(): Promise<unknown> {
    const jobs: LockHealthOptions = { connection: 'jobs', timeoutMs: 2_000 };
    return this.health.check([() => this.locks.isHealthy(), () => this.locks.isHealthy('job-locks', jobs)]);
  }
}

@Module({
  imports: [TerminusModule.forRoot({ logger: false })],
  controllers: [HealthController],
  providers: [LockHealthIndicator],
  exports: [LockHealthIndicator],
})
class HealthModule {}

/** An app with two connections, and its health over HTTP. */
async function start(connection: string) {
  const jobsModule = RedisLockModule.forRoot({ name: 'jobs', connection: redisUrl(), drainMs: 100 });
  const { app, locks, get } = await startPlain({ imports: [jobsModule, HealthModule] }, { connection });
  const health = async () => {
    const { status, text } = await get('health');
    return { status, body: JSON.parse(text) as { details: Record<string, object> } };
  };
  const jobs = app.get<RedisLockService>(getLockServiceToken('jobs'));
  return { app, health, locks, jobs, indicator: app.get(LockHealthIndicator) };
}

/** An app with the default connection alone. */
async function startAlone(connection?: string) {
  const started = await startApp(connection ? { connection } : {}, { imports: [HealthModule] });
  return { ...started, indicator: started.app.get(LockHealthIndicator) };
}

const IDLE = { held: 0, waiting: 0, lostLastMinute: 0, latencyMs: expect.any(Number) };

describe('GET /health', () => {
  it('is 200 and up, with the holds, waiters and losses of each connection', async () => {
    const { health, locks, jobs } = await start(redisUrl());
    expect(await health()).toMatchObject({
      status: 200,
      body: { status: 'ok', details: { locks: { status: 'up', ...IDLE }, 'job-locks': { status: 'up', ...IDLE } } },
    });
    const [held, lost] = [await locks.acquire(freshKey()), await jobs.acquire(freshKey())];
    const waiting = locks.acquire(held.key);
    const { signal } = lost;
    await untilWaiting({ locks }, held.key);
    await jobs.forceRelease(lost.key);
    await eventually(() => signal.aborted);
    const { body } = await health();
    expect(body.details).toEqual({
      locks: { status: 'up', ...IDLE, held: 1, waiting: 1 },
      'job-locks': { status: 'up', ...IDLE, lostLastMinute: 1 },
    });
    await held.release();
    await (await waiting).release();
  });

  it('is 503 and down while the Redis of one connection is away, and up again afterwards', async () => {
    const proxy = await proxyTo();
    const { health } = await start(proxy.url);
    expect((await health()).status).toBe(200);
    disconnect(proxy);
    const { status, body } = await health();
    expect({ status, details: body.details }).toEqual({
      status: 503,
      details: {
        locks: { status: 'down', ...IDLE, message: expect.stringMatching(/^Redis (could not|did not)/) },
        'job-locks': { status: 'up', ...IDLE },
      },
    });
    expect(JSON.stringify(body)).not.toMatch(new RegExp(`${proxy.port}|127\\.0\\.0\\.1|nestjs-redis-lock|\\bat `));
    proxy.refuse(false);
    await eventually(async () => (await health()).status === 200);
  });
});

describe('LockHealthIndicator', () => {
  it('is down within timeoutMs when Redis gives no answer', async () => {
    const proxy = await proxyTo();
    const { indicator } = await startAlone(proxy.url);
    expect(await indicator.isHealthy()).toEqual({ locks: { status: 'up', ...IDLE } });
    proxy.blackhole(true);
    const startedAt = performance.now();
    const { redis } = await indicator.isHealthy('redis', { timeoutMs: 50 });
    // The command itself would wait for seconds; the machine may stand still in between.
    expect(performance.now() - startedAt).toBeLessThan(50 + FREEZE_MS);
    expect(redis).toEqual({ status: 'down', ...IDLE, message: 'Redis did not answer within 50 ms.' });
  });

  it('is down, without a password in the text, when Redis refuses the log-in', async () => {
    const { url, admin } = await ownRedis();
    await admin.call('ACL', 'SETUSER', 'app', 'on', '>s3cret-word', '~*', '&*', '+@all');
    const { indicator } = await startAlone(url.replace('redis://', 'redis://app:wr0ng-word@'));
    const health = await eventually(async () => {
      const { locks } = await indicator.isHealthy();
      return locks.status === 'down' && String(locks.message).includes('WRONGPASS') && locks;
    });
    expect(health.message).toBe('Redis could not be asked: WRONGPASS.');
    expect(JSON.stringify(health)).not.toMatch(/s3cret|wr0ng|app/);
  });

  it.each([
    ['OOM', ['CONFIG', 'SET', 'maxmemory', '1'], ['CONFIG', 'SET', 'maxmemory', '0']],
    ['NOREPLICAS', ['CONFIG', 'SET', 'min-replicas-to-write', '1'], ['CONFIG', 'SET', 'min-replicas-to-write', '0']],
    ['READONLY', ['REPLICAOF', '127.0.0.1', '1'], ['REPLICAOF', 'NO', 'ONE']],
    ['NOPERM', ['ACL', 'SETUSER', 'default', '-hset'], ['ACL', 'SETUSER', 'default', '+@all']],
  ])(
    'with `acquire: true`, is down while each lock is refused with %s, and up afterwards',
    async (code, begin, end) => {
      const { url, admin } = await ownRedis();
      const { indicator, locks } = await startAlone(url);
      expect(await indicator.isHealthy('locks', { acquire: true })).toEqual({ locks: { status: 'up', ...IDLE } });
      await admin.call(begin[0]!, ...begin.slice(1));
      expect((await indicator.isHealthy()).locks.status).toBe('up');
      const message = `No lock can be acquired: ${code}.`;
      expect(await indicator.isHealthy('locks', { acquire: true })).toEqual({
        locks: { status: 'down', ...IDLE, message },
      });
      await admin.call(end[0]!, ...end.slice(1));
      await eventually(async () => (await indicator.isHealthy('locks', { acquire: true })).locks.status === 'up');
      for await (const lock of locks.list()) throw new Error(`${lock.key} is held`);
      expect(await admin.dbsize()).toBe(1);
    },
  );

  it('with `acquire: true`, is up in several instances at once, and emits no events', async () => {
    const instances = [await startAlone(), await startAlone()];
    const told = jest.fn();
    for (const { locks } of instances)
      for (const name of ['acquired', 'released'] as const) locks.events.on(name, told);
    const checks = instances.flatMap(({ indicator }) =>
      [1, 2, 3].map(() => indicator.isHealthy('l', { acquire: true })),
    );
    for (const { l } of await Promise.all(checks)) expect(l.status).toBe('up');
    expect(told).not.toHaveBeenCalled();
  });

  it('refuses an unknown connection and a wrong option, with advice', async () => {
    const { indicator } = await startAlone();
    const missing = await rejection(indicator.isHealthy('locks', { connection: 'jobs' }));
    expect(missing).toMatchObject({ code: 'LOCK_CONFIGURATION' });
    expect(missing.message).toMatch(/"jobs".*RedisLockModule\.forRoot\(\{ name: 'jobs' \}\)/);
    const wrong = await rejection(indicator.isHealthy('locks', { timeoutMs: Number.NaN }));
    expect(wrong).toMatchObject({ code: 'LOCK_CONFIGURATION', message: expect.stringContaining('`timeoutMs`') });
    const misspelt = await rejection(indicator.isHealthy('locks', { acquires: true } as never));
    expect(misspelt).toMatchObject({
      code: 'LOCK_CONFIGURATION',
      message: 'Unknown option `acquires` of isHealthy(); expected one of connection, timeoutMs, acquire.',
    });
    await expect(indicator.isHealthy('locks', null as never)).rejects.toMatchObject({ code: 'LOCK_CONFIGURATION' });
    const odd = await rejection(indicator.isHealthy('locks', { acquire: 'yes' as never }));
    expect(odd).toMatchObject({ code: 'LOCK_CONFIGURATION', message: expect.stringContaining('`acquire`') });
  });

  it('counts the losses of every connection from the start of the app to its end', async () => {
    const { app, locks, jobs, indicator } = await start(redisUrl());
    const off = [locks, jobs].map(({ events }) => jest.spyOn(events, 'off'));
    for (const one of [locks, jobs, jobs]) {
      const { key, signal } = await one.acquire(freshKey());
      await one.forceRelease(key);
      await eventually(() => signal.aborted);
    }
    expect((await indicator.isHealthy()).locks).toMatchObject({ lostLastMinute: 1 });
    expect((await indicator.isHealthy('locks', { connection: 'jobs' })).locks).toMatchObject({ lostLastMinute: 2 });
    await app.close();
    for (const spy of off) expect(spy).toHaveBeenCalledWith('lost', expect.any(Function));
  });
});
