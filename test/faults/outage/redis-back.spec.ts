import 'reflect-metadata';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type LockLostError, LockStoreError } from '../../../lib/index.js';
import { appClient, RELUCTANT } from '../../support/redis/connections.js';
import { eventually } from '../../support/waiting/eventually.js';
import { ownRedis, proxyTo, startAgain } from '../../support/redis/own-redis.js';
import { closeAll, closeLater, freshKey, type LockApp, openAdmin, startApp } from '../../support/apps/lock-app.js';
import { rejection } from '../../support/waiting/rejection.js';
import { type StartedRedis } from '../../../scripts/redis.mjs';
import { untilRenewed } from '../../support/waiting/waiters.js';
import { startVip } from '../../support/network/vip.js';
import { ownSentinels } from '../../support/redis/own-topologies.js';

afterEach(closeAll);

/** Long enough that no test waits for its end. */
const LONG = { leaseMs: 300_000, waitMs: 0 };

describe('when Redis is back', () => {
  it('a grant that came too late over a slow network was given back', async () => {
    const [proxy, admin] = [await proxyTo(), openAdmin()];
    const { locks, locker } = await startApp({ connection: proxy.url });
    await locks.withLock(freshKey(), () => undefined);
    const key = freshKey();
    proxy.delayMs = 2_000;
    expect(await rejection(locks.acquire(key, LONG))).toBeInstanceOf(LockStoreError);
    proxy.delayMs = 0;
    await eventually(() => locker.live.releasing === 0, { timeoutMs: 20_000 });
    await eventually(async () => (await admin.hexists(`lock:${key}`, 'r')) === 1);
    expect(await (await startApp()).locks.tryAcquire(key)).not.toBeNull();
  });

  it('what a client of the application would have queued leaves no lock behind', async () => {
    const server = await ownRedis();
    const client = appClient(server.url, { isPatient: true });
    const { locks, locker } = await startApp({ connection: client.client });
    await locks.withLock('warm', () => undefined);
    await server.kill();
    expect(await rejection(locks.acquire('late', LONG))).toBeInstanceOf(LockStoreError);
    await startAgain(server);
    await eventually(() => locker.live.releasing === 0, { timeoutMs: 20_000 });
    const other = await startApp({ connection: server.url });
    expect(await eventually(() => other.locks.tryAcquire('late', LONG), { timeoutMs: 20_000 })).toBeTruthy();
  });

  it.each(Object.entries(RELUCTANT))('waiting calls continue by themselves (%s)', async (_name, connectTo) => {
    const server = await ownRedis();
    const connection = connectTo(server.url);
    const { locks } = await startApp({ connection });
    const held = await locks.acquire('key', { renew: false });
    const before = locks.acquire('key', { waitMs: Infinity });
    await eventually(async () => (await locks.inspect('key')).waiters === 1);
    await server.kill();
    const during = locks.acquire('key-2', { waitMs: 60_000 });
    await expect(locks.tryAcquire('key-3')).rejects.toBeInstanceOf(LockStoreError);
    await startAgain(server);
    await held.release();
    const locksThen = await Promise.all([before, during]);
    expect(locksThen.map((lock) => lock.held)).toEqual([true, true]);
  });
});

const LEASE_MS = 20_000;

/** One instance that holds a lock, and one that waits for it. */
async function holdAndWait({ url }: StartedRedis) {
  const [a, b, key] = [await startApp({ connection: url }), await startApp({ connection: url }), freshKey()];
  const held = await a.locks.acquire(key, { leaseMs: LEASE_MS });
  const next = b.locks.acquire(key, { waitMs: 60_000 });
  await eventually(async () => (await a.locks.inspect(key)).waiters === 1);
  return { a, b, key, held, next };
}

describe('a server that restarts', () => {
  it('notifies holders that the data is gone, and grants greater tokens', async () => {
    const server = await ownRedis();
    const { held, next } = await holdAndWait(server);
    await server.kill();
    await startAgain(server);
    const lock = await next;
    expect(lock.fencingToken).toBeGreaterThan(held.fencingToken);
    await eventually(() => held.signal.aborted, { timeoutMs: 2 * LEASE_MS });
    expect(['taken', 'expired']).toContain((held.signal.reason as LockLostError).reason);
    expect(lock.held).toBe(true);
  }, 60_000);

  it('keeps holds and waiters when the data is kept', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'kept-'));
    closeLater({ close: async () => rmSync(folder, { recursive: true, force: true }) });
    const server = await ownRedis(['--dir', folder, '--appendonly', 'yes', '--appendfsync', 'always']);
    const { a, key, held, next } = await holdAndWait(server);
    await server.kill();
    await startAgain(server);
    await untilRenewed(a, 2, { timeoutMs: 2 * LEASE_MS });
    expect([held.held, (await a.locks.inspect(key)).waiters]).toEqual([true, 1]);
    await held.release();
    const lock = await next;
    expect(lock.fencingToken).toBeGreaterThan(held.fencingToken);
  }, 60_000);
});

/** Calls of a process that does not know that its server hangs, all the time. */
function keepCalling({ locks }: LockApp) {
  const errors: unknown[] = [];
  const call = () =>
    locks.withLock(freshKey(), { waitMs: 0, leaseMs: 4_000 }, () => undefined).catch((error) => errors.push(error));
  const timer = setInterval(() => void call(), 100);
  closeLater({ close: async () => clearInterval(timer) });
  return { errors, stop: () => clearInterval(timer) };
}

/** Waits until a lock can be had. */
async function untilBack({ locks }: LockApp): Promise<void> {
  const isBack = () => locks.withLock(freshKey(), { waitMs: 0, leaseMs: 4_000 }, () => true).catch(() => false);
  await eventually(isBack, { timeoutMs: 25_000, message: 'No lock could be had' });
}

const sleepUntil = (at: number) => eventually(() => performance.now() >= at, { timeoutMs: 60_000 });

describe('a server that accepts connections and answers nothing', () => {
  it.each([1_000, 5_000])(
    'grants locks again soon after %i ms without answers',
    async (ms) => {
      const { pid, url } = await ownRedis();
      const app = await startApp({ connection: url });
      await app.locks.withLock(freshKey(), () => undefined);
      const { stop } = keepCalling(app);
      process.kill(pid, 'SIGSTOP');
      await sleepUntil(performance.now() + ms);
      process.kill(pid, 'SIGCONT');
      await untilBack(app);
      stop();
    },
    60_000,
  );

  it('gets new connections when those of that time stay dead', async () => {
    const { port } = await ownRedis();
    const vip = closeLater(await startVip(port));
    const app = await startApp({ connection: vip.url });
    await app.locks.withLock(freshKey(), () => undefined);
    const { stop } = keepCalling(app);
    vip.target = null;
    vip.forget();
    await eventually(() => vip.accepted >= 3, { timeoutMs: 20_000 });
    vip.target = port;
    await untilBack(app);
    stop();
  }, 60_000);

  it('grants locks soon after it recovers when it hung from the start', async () => {
    const { port } = await ownRedis();
    const vip = closeLater(await startVip(null));
    const app = await startApp({ connection: vip.url });
    const error = await rejection<LockStoreError>(app.locks.acquire(freshKey(), { waitMs: 0 }));
    expect(error).toMatchObject({ code: 'LOCK_STORE', retryable: true });
    vip.target = port;
    await untilBack(app);
  }, 60_000);
});

describe('a hung master behind sentinels', () => {
  it('is replaced by the new master, and runs no command when it wakes', async () => {
    const topology = await ownSentinels();
    const { connection, master, replicas } = topology;
    const app = await startApp({ connection });
    await app.locks.withLock(freshKey(), () => undefined);
    const calls = keepCalling(app);
    await master.kill('SIGSTOP');
    // A quick failover leaves only the calls of its first second without an answer.
    await eventually(() => calls.errors.length > 2, { timeoutMs: 20_000 });
    // A new process is at home on the new master at once.
    const other = await eventually(
      async () => {
        const started = await startApp({ connection });
        const works = await started.locks.withLock(freshKey(), { waitMs: 0 }, () => true).catch(() => false);
        return works && started;
      },
      { timeoutMs: 30_000 },
    );
    await untilBack(app);
    calls.stop();
    const held = await other.locks.acquire('held', { leaseMs: 20_000 });
    await master.kill('SIGCONT');
    const deadline = performance.now() + 3_000;
    while (performance.now() < deadline) {
      expect(await app.locks.tryAcquire('held').catch(() => null)).toBeNull();
    }
    expect(replicas).toHaveLength(2);
    expect(held.held).toBe(true);
  }, 120_000);
});

describe('a hanging sentinel', () => {
  it('is skipped', async () => {
    const topology = await ownSentinels();
    const { connection, sentinels, master } = topology;
    const app = await startApp({ connection });
    await app.locks.withLock(freshKey(), () => undefined);
    for (const sentinel of sentinels.slice(0, 2)) await sentinel.kill('SIGSTOP');
    await openAdmin(master.url).call('CLIENT', 'KILL', 'TYPE', 'normal');
    await untilBack(app);
  }, 60_000);
});
