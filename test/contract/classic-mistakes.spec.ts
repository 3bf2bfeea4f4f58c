import { type Lock } from '../../lib/index.js';
import { eventually } from '../support/waiting/eventually.js';
import { disconnect, isCommand, loadScripts, proxyTo } from '../support/redis/own-redis.js';
import { closeAll, freshKey, openAdmin, startApp } from '../support/apps/lock-app.js';
import { openStore } from './support/stores.js';
import { describeOnRedis, itOnSingle, topology } from '../support/topologies/topology.js';
import { deadlineOf, grantedAt, serverTime } from '../support/redis/records.js';

afterEach(closeAll);

describeOnRedis('classic mistake: a crash between SETNX and EXPIRE', () => {
  itOnSingle('gives the key a time to live and a lease from the moment it exists', async () => {
    const [proxy, admin] = [await proxyTo(), openAdmin()];
    await loadScripts(admin);
    const [a, b] = [await startApp({ connection: proxy.url }), await startApp()];
    const key = freshKey();
    await a.locks.isLocked(key);
    proxy.dropNextReply((text) => {
      if (!isCommand('acquire')(text)) return false;
      // This one arrives; nothing that follows does.
      proxy.refuse(true);
      return true;
    });
    a.locks.acquire(key, { leaseMs: 1_500, waitMs: 0 }).catch(() => undefined);
    await eventually(async () => (await admin.exists(`lock:${key}`)) === 1);
    expect(await admin.pttl(`lock:${key}`)).toBeGreaterThan(0);
    const deadline = await deadlineOf([admin], key);
    expect(deadline).toBeLessThanOrEqual((await serverTime(admin)) + 1_500);
    const next = await b.locks.acquire(key, { waitMs: 25_000 });
    expect(grantedAt(next)).toBeGreaterThanOrEqual(deadline);
  });

  it('never leaves the key without a time to live', async () => {
    const [{ locks }, admin] = [await startApp(), openAdmin()];
    const key = freshKey();
    const use = new AbortController();
    const ttls = new Set<boolean>();
    const watch = async () => {
      while (!use.signal.aborted) ttls.add((await admin.pttl(`lock:${key}`)) !== -1);
    };
    const watching = watch();
    for (let i = 0; i < 50; i++) await Promise.all([locks.withLock(key, () => 1), locks.withLock(key, () => 2)]);
    use.abort();
    await watching;
    expect([...ttls]).toEqual([true]);
  });
});

describe('classic mistake: GETSET over the expiry of another holder', () => {
  it('leaves a hold unchanged when others request it, wait for it, or cancel', async () => {
    const [a, b, store] = [await startApp(), await startApp(), openStore()];
    const key = freshKey();
    const held = await a.locks.acquire(key, { leaseMs: 60_000, renew: false });
    const hold = async () => (await store.holdsOf(key))[held.owner];
    // A node of a quorum that grants last learns the token of the others a little later.
    const token = new RegExp(`\\b${held.fencingToken}\\b`);
    await eventually(async () => token.test((await hold()) ?? ''));
    const before = await hold();
    for (let i = 0; i < 20; i++) expect(await b.locks.tryAcquire(key, { leaseMs: 600_000 })).toBeNull();
    await b.locks.acquire(key, { leaseMs: 600_000, waitMs: 30 }).catch(() => undefined);
    await b.locks.acquire(key, { leaseMs: 50, waitMs: 30, mode: 'read' }).catch(() => undefined);
    expect(before).toBeDefined();
    expect(await hold()).toBe(before);
    expect(held.held).toBe(true);
  });
});

describe('classic mistake: DEL without checking the owner', () => {
  itOnSingle('frees nothing when the network comes back after another client was granted the lock', async () => {
    const proxy = await proxyTo();
    const [a, b] = [await startApp({ connection: proxy.url }), await startApp()];
    const key = freshKey();
    const lost = await a.locks.acquire(key, { leaseMs: 1_500, renew: false });
    disconnect(proxy);
    const released = lost.release();
    const next = await b.locks.acquire(key, { waitMs: 25_000 });
    proxy.refuse(false);
    await released;
    await eventually(() => a.locker.live.releasing === 0, { timeoutMs: 20_000 });
    await a.locks.isLocked(key);
    expect((await b.locks.inspect(key)).holders).toMatchObject([{ fencingToken: next.fencingToken }]);
  });
});

describe('classic mistake: GET, then DEL', () => {
  it('keeps the new hold when a release races with the end of the lease', async () => {
    const [a, b] = [await startApp(), await startApp()];
    // All of them have to be granted within their leases, also on several masters.
    const [leaseMs, races] = topology.supports.oneRecord ? [300, 60] : [600, 20];
    const race = async (i: number): Promise<{ old: Lock; next: Lock }> => {
      const key = freshKey();
      const old = await a.locks.acquire(key, { leaseMs, renew: false });
      const next = b.locks.acquire(key, { waitMs: 25_000 });
      await new Promise((resolve) => setTimeout(resolve, leaseMs - 10 + (i % 20)));
      await old.release();
      return { old, next: await next };
    };
    for (const { old, next } of await Promise.all(Array.from({ length: races }, (_, i) => race(i)))) {
      const { holders } = await a.locks.inspect(next.key);
      expect(holders).toMatchObject([{ fencingToken: next.fencingToken }]);
      expect(next.fencingToken).toBeGreaterThan(old.fencingToken);
      expect(next.held).toBe(true);
    }
  });
});
