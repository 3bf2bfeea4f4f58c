import { eventually } from '../support/waiting/eventually.js';
import { proxyTo } from '../support/redis/own-redis.js';
import { closeAll, freshKey, openAdmin, startApp } from '../support/apps/lock-app.js';
import { openStore } from './support/stores.js';
import { itOnSingle, itWithQueue, topology } from '../support/topologies/topology.js';
import { untilWaiting } from '../support/waiting/waiters.js';
import { startMortal } from './support/mortal.js';
import { untilQueuedAtFirst, waiters } from './support/queued.js';
import { deadlineOf, grantedAt, queued } from '../support/redis/records.js';

describe('promise 3: no deadlock', () => {
  afterEach(closeAll);

  it('grants the lock of a killed holder when its lease ends, and not before', async () => {
    const [b, gone, store] = [await startApp(), await startMortal(), openStore()];
    const key = freshKey();
    await gone.acquire(key, { leaseMs: 6_000 });
    const next = b.locks.acquire(key, { waitMs: 25_000 });
    await untilWaiting(b, key);
    await gone.kill();
    const deadline = await store.deadlineOf(key);
    const at = grantedAt(await next);
    expect(at).toBeGreaterThanOrEqual(deadline - topology.spreadMs);
  });

  itOnSingle('grants the lock of a disconnected holder when its lease ends, and not before', async () => {
    const [proxy, admin] = [await proxyTo(), openAdmin()];
    const [a, b] = [await startApp({ connection: proxy.url }), await startApp()];
    const key = freshKey();
    const lost = await a.locks.acquire(key, { leaseMs: 1_000, renew: false });
    const deadline = await deadlineOf([admin], key);
    proxy.blackhole(true);
    const next = await b.locks.acquire(key, { waitMs: 25_000 });
    expect(grantedAt(next)).toBeGreaterThanOrEqual(deadline);
    expect(lost.held).toBe(false);
  });

  itWithQueue('drops a killed waiter when its waiter lease ends', async () => {
    const [a, gone, store] = [await startApp(), await startMortal(), openStore()];
    const key = freshKey();
    const held = await a.locks.acquire(key);
    const waiting = gone.acquire(key, { leaseMs: 600, waitMs: 60_000 });
    waiting.catch(() => undefined);
    await eventually(async () => (await store.queued(key)) === 1);
    await gone.kill();
    await eventually(async () => (await a.locks.inspect(key)).waiters === 0);
    await held.release();
    const next = await a.locks.tryAcquire(key);
    expect(next).not.toBeNull();
    expect(await store.queued(key)).toBe(0);
  });

  itOnSingle(
    'grants nothing to a waiter whose waiter lease has ended, even if Redis believes it is connected',
    async () => {
      const [proxy, admin] = [await proxyTo(), openAdmin()];
      const [a, gone] = [await startApp(), await startApp({ connection: proxy.url })];
      const key = freshKey();
      const held = await a.locks.acquire(key);
      gone.locks.acquire(key, { leaseMs: 600, waitMs: 60_000 }).catch(() => undefined);
      await eventually(async () => (await queued(admin, key)) === 1);
      proxy.blackhole(true);
      await eventually(async () => (await a.locks.inspect(key)).waiters === 0);
      await held.release();
      expect(await a.locks.tryAcquire(key)).not.toBeNull();
    },
  );

  it('skips a killed waiter at the head of the queue', async () => {
    const [a, b, gone] = [await startApp(), await startApp(), await startMortal()];
    const key = freshKey();
    const held = await a.locks.acquire(key);
    void gone.acquire(key, { waitMs: 60_000 });
    await untilWaiting(a, key);
    const next = b.locks.acquire(key, { waitMs: 25_000 });
    await untilWaiting(a, key, 2);
    await gone.kill();
    await held.release();
    expect((await next).held).toBe(true);
  });

  itOnSingle(
    'skips a dead waiter at the head after its waiter lease, even if Redis believes it is connected',
    async () => {
      const [proxy, admin] = [await proxyTo(), openAdmin()];
      const [a, b, gone] = [await startApp(), await startApp(), await startApp({ connection: proxy.url })];
      const key = freshKey();
      const held = await a.locks.acquire(key);
      gone.locks.acquire(key, { leaseMs: 900, waitMs: 60_000 }).catch(() => undefined);
      await eventually(async () => (await queued(admin, key)) === 1);
      const next = b.locks.acquire(key, { waitMs: 25_000 });
      await eventually(async () => (await queued(admin, key)) === 2);
      proxy.blackhole(true);
      await held.release();
      expect((await next).held).toBe(true);
    },
  );

  itWithQueue('drops a killed waiter for several keys from all queues', async () => {
    const [a, gone] = [await startApp(), await startMortal()];
    const keys = [freshKey(), freshKey()];
    const busy = await Promise.all(keys.map((key) => a.locks.acquire(key)));
    void gone.acquire(keys as unknown as string, { waitMs: 25_000 });
    await untilQueuedAtFirst(a, keys);
    await gone.kill();
    const next = keys.map((key) => a.locks.acquire(key, { waitMs: 25_000 }));
    await eventually(async () => String(await waiters(a, keys)) === '1,1', { timeoutMs: 40_000 });
    for (const lock of busy) await lock.release();
    expect((await Promise.all(next)).map(({ held }) => held)).toEqual([true, true]);
  });

  it('has readers and writers wait behind a killed reader until its lease ends', async () => {
    const [b, gone, store] = [await startApp(), await startMortal(), openStore()];
    const key = freshKey();
    await gone.acquire(key, { leaseMs: 1_500, mode: 'read', renew: false });
    const deadline = await store.deadlineOf(key);
    await gone.kill();
    const reader = await b.locks.acquire(key, { mode: 'read' });
    await reader.release();
    const writer = await b.locks.acquire(key, { waitMs: 25_000 });
    expect(grantedAt(writer)).toBeGreaterThanOrEqual(deadline - topology.spreadMs);
  });
});
