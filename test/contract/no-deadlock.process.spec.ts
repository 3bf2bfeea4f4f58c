import { eventually } from '../support/waiting/eventually.js';
import { proxyTo } from '../support/redis/own-redis.js';
import { closeAll, freshKey, openAdmin, startApp } from '../support/apps/lock-app.js';
import { openStore } from './support/stores.js';
import { itOnSingle, itWithQueue, topology } from '../support/topologies/topology.js';
import { untilWaiting } from '../support/waiting/waiters.js';
import { startMortal } from './support/mortal.js';
import { untilQueuedAtFirst, waiters } from './support/queued.js';
import { grantedAt, queued } from '../support/redis/records.js';

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
