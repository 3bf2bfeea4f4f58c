import { LockConfigurationError, type LockState } from '../../../lib/index.js';
import { ownRedis } from '../../support/redis/own-redis.js';
import { type LockApp, closeAll, startApp } from '../../support/apps/lock-app.js';
import { ownPlace } from '../support/stores.js';
import { itOnRedis, itOnSingle, topology } from '../../support/topologies/topology.js';
import { untilWaiting } from '../../support/waiting/waiters.js';
import { rejection } from '../../support/waiting/rejection.js';

async function listed({ locks }: LockApp, options?: { prefix?: string; limit?: number }): Promise<LockState[]> {
  const states: LockState[] = [];
  for await (const state of locks.list(options)) states.push(state);
  return states;
}

const keysOf = (states: readonly LockState[]) => states.map(({ key }) => key).toSorted();

async function startAlone() {
  const place = await ownPlace();
  const b = await startApp({ ...place.options, keyPrefix: place.otherPrefix });
  return { place, a: await startApp(place.options), b };
}

describe('list', () => {
  afterEach(closeAll);

  itOnSingle('yields a lock that cannot be read with the problem, on one Redis and on a quorum', async () => {
    const servers = [await ownRedis(), await ownRedis(), await ownRedis()] as const;
    for (const { admin } of servers.slice(1)) {
      await admin.hset('lock:newer', { s: `E${'0'.repeat(13)}` });
      await admin.hset('lock:old', { v: '1' });
      await admin.hset('lock:other', { s: 'size 43', name: 'a shoe' });
      await admin.hset('lock:damaged', { s: `A${'0'.repeat(13)}`, 'job:Job': 'not a run' });
      await admin.set('lock:text', 'of another type');
    }
    for (const connection of [servers[1].url, servers.map(({ url }) => url)]) {
      const app = await startApp({ connection });
      await app.locks.withLock('held', async () => {
        const states = await listed(app);
        expect(keysOf(states)).toEqual(['damaged', 'held', 'newer', 'old', 'other']);
        const unknown = { mode: 'unknown', holders: [], waiters: 0, queue: [], fencingToken: 0 };
        const problem = expect.stringMatching(/^An? (newer|earlier) version .*has written this lock/);
        for (const state of states) if (state.key !== 'held') expect(state).toMatchObject({ ...unknown, problem });
      });
      expect(await rejection(app.locks.inspect('damaged'))).toMatchObject({ code: 'LOCK_STORE', retryable: false });
    }
  });

  itOnSingle(
    'reports that a quorum cannot be read, and passes over no lock, while one node has another type',
    async () => {
      const servers = [await ownRedis(), await ownRedis(), await ownRedis()] as const;
      const app = await startApp({ connection: servers.map(({ url }) => url) });
      await app.locks.acquire('a', { leaseMs: 600_000 });
      await servers[0].admin.set('lock:a', 'of another type');
      expect(keysOf(await listed(app))).toEqual(['a']);
      await servers[1].stop();
      expect(await rejection(listed(app))).toMatchObject({ code: 'LOCK_STORE', retryable: true });
    },
  );

  it('yields each lock that is held or waited for exactly once, as inspect reports it', async () => {
    const { a, b } = await startAlone();
    // Unlike list(), this waits until all nodes have answered for the first time.
    await a.locks.withLock('free', () => undefined);
    expect(await listed(a)).toEqual([]);
    const names = Array.from({ length: 250 }, (_, i) => `order:${i}`);
    const locks = await Promise.all(names.map((name) => a.locks.acquire(name, { leaseMs: 600_000 })));
    const shared = await a.locks.acquire('shared', { mode: 'read', leaseMs: 600_000 });
    await a.locks.withLock('free', () => undefined);
    const elsewhere = await b.locks.acquire('elsewhere');
    const waiting = a.locks.acquire('shared', { waitMs: 25_000 });
    await untilWaiting(a, 'shared');
    const states = await listed(a);
    expect(keysOf(states)).toEqual([...names, 'shared'].toSorted());
    expect(states.find(({ key }) => key === 'shared')).toMatchObject({
      mode: 'read',
      waiters: 1,
      holders: [{ pid: process.pid, mode: 'read' }],
    });
    const first = states.find(({ key }) => key === 'order:0');
    expect(first).toMatchObject({ mode: 'write', fencingToken: locks[0]!.fencingToken, holders: [{}] });
    expect(keysOf(await listed(b))).toEqual(['elsewhere']);
    await a.locks.forceRelease('shared');
    await (await waiting).release();
    // The handles are still referenced: one that is garbage-collected is released.
    expect([shared.mode, elsewhere.held]).toEqual(['read', true]);
  });

  it('ends after `limit` locks, or when the reader stops', async () => {
    const { a } = await startAlone();
    const held = await Promise.all(Array.from({ length: 30 }, (_, i) => a.locks.acquire(`key-${i}`)));
    expect(await listed(a, { limit: 7 })).toHaveLength(7);
    expect(await listed(a, { limit: 30 })).toHaveLength(30);
    expect(await listed(a, { limit: 31, prefix: 'key-' })).toHaveLength(30);
    let seen = 0;
    for await (const { mode } of a.locks.list()) {
      expect(mode).toBe('write');
      if (++seen === 3) break;
    }
    expect(seen).toBe(3);
    expect(held.every((lock) => lock.held)).toBe(true);
  });

  itOnRedis('skips keys of another type and foreign hashes under its prefix', async () => {
    const { place, a } = await startAlone();
    const { admin, prefix } = place;
    await a.locks.acquire('mine');
    await admin.set(`${prefix}text`, 'x');
    await admin.rpush(`${prefix}list`, 'x');
    await admin.sadd(`${prefix}set`, 'x');
    await admin.zadd(`${prefix}sorted`, 1, 'x');
    await admin.xadd(`${prefix}stream`, '*', 'x', 'y');
    await admin.hset(`${prefix}hash`, 'x', 'y');
    // With a node down, too few answer for a key of another type, which may be a lock on the others.
    if (topology.name === 'quorum-degraded') expect(await rejection(listed(a))).toMatchObject({ retryable: true });
    else expect(keysOf(await listed(a))).toEqual(['mine']);
    expect(await admin.get(`${prefix}text`)).toBe('x');
  });

  it.each([{ limit: 0 }, { limit: '10' }, { prefix: 7 }, { limits: 5 }, { contains: 7 }, { prefix: '\ud800' }, null])(
    'rejects invalid options with LockConfigurationError: %p',
    async (options) => {
      const { a, place } = await startAlone();
      expect(await rejection(listed(a, options as object))).toBeInstanceOf(LockConfigurationError);
      await place.expectNotSent('scan');
    },
  );
});
