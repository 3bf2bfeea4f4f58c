import { getEventListeners } from 'node:events';
import { eventually } from '../support/waiting/eventually.js';
import { ownRedis } from '../support/redis/own-redis.js';
import { type LockApp, closeAll, freshKey, startApp } from '../support/apps/lock-app.js';
import { ownPlace } from './support/stores.js';
import { itOnRedis, itOnSingle } from '../support/topologies/topology.js';
import { expectNothingAlive, inQueue, untilWaiting, whenAllHeard } from '../support/waiting/waiters.js';
import { rejection } from '../support/waiting/rejection.js';

/** Everything that a lock can go through, on a few keys at once. */
async function useLocks([a, b]: readonly [LockApp, LockApp], signal: AbortSignal): Promise<void> {
  const one = async (key: string) => {
    const held = await a.locks.acquire(key, { signal });
    const abort = new AbortController();
    const timedOut = rejection(b.locks.acquire(key, { waitMs: 20 }));
    const waiting = [
      b.locks.acquire(key, { waitMs: 0, signal }),
      b.locks.acquire(key, { signal: abort.signal, ...inQueue }),
      b.locks.withLock(key, { signal }, () => Promise.reject(new Error('work'))),
      a.locks.withLock(key, { mode: 'read', signal }, () => 1),
      b.locks.withLock(key, { mode: 'read' }, () => 2),
    ];
    const settled = Promise.allSettled(waiting);
    await timedOut;
    await untilWaiting(b, key, 4);
    abort.abort();
    await held.extend(40_000);
    await held.release();
    await settled;
    expect(getEventListeners(abort.signal, 'abort')).toEqual([]);
    await b.locks.withLock(key, { holdAtLeastMs: 30 }, () => undefined);
    const expired = await a.locks.acquire(key, { leaseMs: 1_000, renew: false });
    // Nearly always busy.
    await (await b.locks.tryAcquire(key))?.release();
    await eventually(() => expired.signal.aborted);
    await (await b.locks.acquire(key)).release();
  };
  await Promise.all(Array.from({ length: 8 }, (_, i) => one(`key-${i}`)));
}

describe('promise 10: nothing left behind', () => {
  afterEach(closeAll);

  const useAll = async () => {
    const place = await ownPlace();
    const apps = [await startApp(place.options), await startApp(place.options)] as const;
    const abort = new AbortController();
    await useLocks(apps, abort.signal);
    await expectNothingAlive(apps);
    return { place, abort, keys: await place.keys() };
  };

  it('leaves one record per key in Redis, and nothing in the process', async () => {
    const { place, abort, keys } = await useAll();
    expect(getEventListeners(abort.signal, 'abort')).toEqual([]);
    expect(keys).toEqual(Array.from({ length: 8 }, (_, i) => `${place.prefix}key-${i}`));
  });

  itOnRedis('leaves small hashes, with a time to live', async () => {
    const { place, keys } = await useAll();
    for (const key of keys) {
      await whenAllHeard(async () => {
        // Who held it last.
        const fields = (await place.admin.hkeys(key)).toSorted().filter((field) => field !== 'by');
        // Where a command was on its way when its lock was given back, the lock remembers it.
        expect([
          ['r', 's'],
          ['late', 'r', 's'],
        ]).toContainEqual(fields);
      });
      const ttl = await place.admin.pttl(key);
      expect(ttl).toBeGreaterThan(0);
      // `keepMs` and the lease, and half of `keepMs`, so that it is seldom set.
      expect(ttl).toBeLessThanOrEqual(940_000);
    }
  });

  itOnRedis('keeps its record for as long as the lease, whatever `keepMs` an earlier holder had', async () => {
    const { admin, options, prefix } = await ownPlace();
    const [brief, patient] = [await startApp({ ...options, keepMs: 60_000 }), await startApp(options)];
    const key = freshKey();
    const leaseMs = 200_000;
    for (const { locks } of [brief, patient, brief]) {
      const lock = await locks.acquire(key, { leaseMs });
      await whenAllHeard(async () =>
        expect(await admin.pttl(`${prefix}${key}`)).toBeGreaterThan(lock.remainingMs + 50_000),
      );
      await lock.release();
    }
  });

  itOnSingle('has one subscription per open app, and no connection after the app has closed', async () => {
    const { admin, url } = await ownRedis();
    const apps = [await startApp({ connection: url }), await startApp({ connection: url })];
    const channels = async () => ((await admin.pubsub('CHANNELS', '*')) as string[]).length;
    const connections = async () =>
      String(await admin.client('LIST'))
        .trim()
        .split('\n').length;
    for (const { locks } of apps) await locks.withLock('a', () => undefined);
    await eventually(async () => (await channels()) === 2);
    expect(await connections()).toBe(5);
    await apps[0]!.close();
    await eventually(async () => (await channels()) === 1 && (await connections()) === 3);
    await apps[1]!.close();
    await eventually(async () => (await channels()) === 0 && (await connections()) === 1);
    await expectNothingAlive(apps);
  });
});
