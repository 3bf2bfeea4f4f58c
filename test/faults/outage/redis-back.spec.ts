import 'reflect-metadata';
import { LockStoreError, type LockLostError } from '../../../lib/index.js';
import { RELUCTANT, appClient } from '../../support/redis/connections.js';
import { eventually } from '../../support/waiting/eventually.js';
import { ownRedis, proxyTo, startAgain } from '../../support/redis/own-redis.js';
import { closeAll, freshKey, openAdmin, startApp, closeLater } from '../../support/apps/lock-app.js';
import { rejection } from '../../support/waiting/rejection.js';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type StartedRedis } from '../../../scripts/redis.mjs';
import { untilRenewed } from '../../support/waiting/waiters.js';

/** Long enough that no test waits for its end. */
const LONG = { leaseMs: 300_000, waitMs: 0 };

describe('when Redis is back', () => {
  afterEach(closeAll);

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

  it.each(Object.entries(RELUCTANT))('waiting calls go on by themselves (%s)', async (_name, connectTo) => {
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
  afterEach(closeAll);

  it('tells holders that the data is gone, and grants greater tokens', async () => {
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
