import { type RedisLockModuleOptions } from '../../../lib/index.js';
import { beginMove, keyOn } from '../../support/redis/cluster-slots.js';
import { givenCluster } from '../../support/redis/connections.js';
import { eventually } from '../../support/waiting/eventually.js';
import { expectWoken, untilRenewed } from '../../support/waiting/waiters.js';
import { type LockApp, closeAll, freshKey, openAdmin, startApp } from '../../support/apps/lock-app.js';
import { ownCluster } from '../../support/redis/own-topologies.js';

async function start() {
  const cluster = await ownCluster({ replicas: 0 });
  const { connection } = cluster;
  const startApps = (count: number, more: RedisLockModuleOptions = {}) =>
    Promise.all(Array.from({ length: count }, () => startApp({ connection, ...more })));
  return { ...cluster, startApps };
}

describe('a cluster', () => {
  afterEach(closeAll);

  it('is reached through some of its nodes, or through a given client', async () => {
    const cluster = await start();
    const client = givenCluster(cluster.connection.cluster);
    const one = await startApp({ connection: { cluster: [cluster.connection.cluster[0]!] } });
    const other = await startApp({ connection: client });
    for (const n of [0, 1, 2]) {
      const key = keyOn(n);
      const lock = await one.locks.acquire(key);
      expect(await other.locks.tryAcquire(key)).toBeNull();
      await lock.release();
      await expectWoken(one, other, () => keyOn(n));
    }
  });

  it('locks keys of one tag in one command', async () => {
    const cluster = await start();
    const hashTag = (key: string) => (key.startsWith('order') ? key.split(':')[1] : undefined);
    const { locks } = (await cluster.startApps(1, { hashTag }))[0]!;
    const id = freshKey();
    const keys = [`order:${id}:stock`, `order:${id}:payment`, `order:${id}:{x}%`];
    const lock = await locks.acquire(keys);
    const admins = cluster.masters.map(({ url }) => openAdmin(url));
    const stored = (await Promise.all(admins.map((admin) => admin.keys('*')))).filter((names) => names.length > 0);
    expect(stored.map((names) => names.sort())).toEqual([
      [`lock:{${id}}order:${id}:payment`, `lock:{${id}}order:${id}:stock`, `lock:{${id}}order:${id}:%7Bx%7D%25`].sort(),
    ]);
    const listed: string[] = [];
    for await (const state of locks.list({ prefix: `order:${id}` })) listed.push(state.key);
    expect(listed.sort()).toEqual([...keys].sort());
    expect(await locks.tryAcquire(keys[1]!)).toBeNull();
    await lock.release();
    expect(await locks.isLocked(keys[0]!)).toBe(false);
  });

  it('keeps holds and serves waiters while the slot moves (MOVED, ASK)', async () => {
    const cluster = await start();
    const [a, b, c] = (await cluster.startApps(3)) as [LockApp, LockApp, LockApp];
    const key = keyOn(0);
    const lock = await a.locks.acquire(key, { leaseMs: 4_000 });
    const waiting = b.locks.acquire(key, { waitMs: 20_000, leaseMs: 4_000 });
    await eventually(async () => (await a.locks.inspect(key)).waiters === 1);
    const move = await beginMove(cluster, `lock:${key}`);
    await move.moveKey(`lock:${key}`);
    // Its key is where the slot is not yet: ASK.
    await untilRenewed(a, 2);
    expect(await c.locks.tryAcquire(key)).toBeNull();
    await move.end();
    await lock.extend(1_000);
    await lock.release();
    const next = await waiting;
    expect(next.fencingToken).toBeGreaterThan(lock.fencingToken);
    expect(await c.locks.tryAcquire(key)).toBeNull();
    await next.release();
    await (await c.locks.acquire(key)).release();
  });

  it('locks several keys of a moving slot once all of them have arrived (TRYAGAIN)', async () => {
    const cluster = await start();
    const hashTag = () => 'one';
    const [a, b] = (await cluster.startApps(2, { hashTag })) as [LockApp, LockApp];
    const keys = [freshKey(), freshKey()];
    await (await a.locks.acquire(keys)).release();
    const move = await beginMove(cluster, '{one}');
    await move.moveKey(`lock:{one}${keys[0]}`);
    const both = b.locks.acquire(keys, { waitMs: 20_000 });
    const single = await a.locks.acquire(keys[0]!);
    await single.release();
    let isGranted = false;
    void both.then(() => (isGranted = true));
    await (await a.locks.acquire(keys[1]!)).release();
    expect(isGranted).toBe(false);
    await move.end();
    const lock = await both;
    expect(lock.fencingTokens[0]).toBeGreaterThan(single.fencingToken);
    await lock.release();
  });
});
