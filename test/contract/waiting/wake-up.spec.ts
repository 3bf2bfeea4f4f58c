import { getEventListeners } from 'node:events';
import { type Lock, LockWaitTimeoutError } from '../../../lib/index.js';
import { clientWithSubscriberAt } from '../../support/redis/connections.js';
import { queued } from '../../support/redis/records.js';
import { outcomeOf } from '../../support/waiting/outcome.js';
import { rejection } from '../../support/waiting/rejection.js';
import { eventually } from '../../support/waiting/eventually.js';
import { killConnections, ownRedis, proxyTo } from '../../support/redis/own-redis.js';
import { type LockApp, closeAll, freshKey, openAdmin, startApp } from '../../support/apps/lock-app.js';
import { type StoreView, openStore } from '../support/stores.js';
import { itOnSingle, topology } from '../../support/topologies/topology.js';
import { expectNothingAlive, inQueue, untilWaiting } from '../../support/waiting/waiters.js';

/** Waits in the queue as the last. */
async function enqueue(app: LockApp, store: StoreView, key: string): Promise<{ readonly lock: Promise<Lock> }> {
  const before = await store.queued(key);
  const lock = app.locks.acquire(key, { waitMs: 30_000, ...inQueue });
  await eventually(async () => (await store.queued(key)) === before + 1);
  return { lock };
}

/** Takes the timers away from an app until they are given back: waiting calls then poll only when woken. */
function withoutPolls({ locker }: LockApp): () => void {
  const schedule = jest.spyOn(locker.timers, 'schedule').mockImplementation((at) => ({ at, cancel: () => undefined }));
  return () => schedule.mockRestore();
}

afterEach(closeAll);

describe('promise 6: no lost wake-up', () => {
  itOnSingle('grants a lock while the subscribers are killed again and again', async () => {
    const { admin, url } = await ownRedis();
    const [a, b] = [await startApp({ connection: url }), await startApp({ connection: url })];
    const key = freshKey();
    for (let round = 0; round < 5; round++) {
      const held = await a.locks.acquire(key);
      const { lock } = await enqueue(b, openStore(admin), key);
      await killConnections(admin, 'pubsub');
      await held.release();
      const next = await lock;
      expect(next.held).toBe(true);
      await next.release();
    }
  });

  itOnSingle('grants a lock within the poll while the subscriber cannot connect', async () => {
    const { admin, url } = await ownRedis();
    const proxy = await proxyTo(url);
    const [a, b] = [await startApp({ connection: url }), await startApp({ connection: proxy.url })];
    const key = freshKey();
    const held = await a.locks.acquire(key);
    const { lock } = await enqueue(b, openStore(admin), key);
    proxy.refuse(true);
    await killConnections(admin, 'pubsub');
    await eventually(async () => ((await admin.pubsub('CHANNELS', 'lock:wake:*')) as string[]).length <= 1);
    await held.release();
    const next = await lock;
    expect(next.held).toBe(true);
  });

  itOnSingle('notices a grant within the poll when its message is lost on a connection that looks alive', async () => {
    const [proxy, admin] = [await proxyTo(), openAdmin()];
    const [a, b] = [await startApp(), await startApp({ connection: clientWithSubscriberAt(proxy.url) })];
    const key = freshKey();
    const held = await a.locks.acquire(key);
    const { lock } = await enqueue(b, openStore(admin), key);
    proxy.blackhole(true);
    await held.release();
    const next = await lock;
    expect(next.remainingMs).toBeGreaterThan(20_000);
    expect((await a.locks.inspect(key)).holders).toMatchObject([{ fencingToken: next.fencingToken }]);
  });

  itOnSingle('requests again after a new subscription, since a message may have been missed', async () => {
    const { admin, url } = await ownRedis();
    const proxy = await proxyTo(url);
    const client = clientWithSubscriberAt(proxy.url, url);
    const [a, b, key] = [await startApp({ connection: url }), await startApp({ connection: client }), freshKey()];
    const held = await a.locks.acquire(key, { leaseMs: 60_000 });
    const restore = withoutPolls(b);
    try {
      const { lock } = await enqueue(b, openStore(admin), key);
      const outcome = outcomeOf(lock);
      await eventually(async () => ((await admin.pubsub('CHANNELS', 'lock:wake:*')) as string[]).length === 2);
      proxy.blackhole(true);
      await held.release();
      proxy.cutAll();
      expect(outcome).toEqual({});
      proxy.blackhole(false);
      const next = await eventually(() => outcome.value, { timeoutMs: 20_000 });
      expect([next.held, await queued(admin, key)]).toEqual([true, 0]);
      await next.release();
    } finally {
      restore();
    }
  });
});

describe('promise 6: waiters that cancel', () => {
  it('rejects an aborted wait with the reason of its signal, and leaves the queue at once', async () => {
    const [a, b, store] = [await startApp(), await startApp(), openStore()];
    const [key, abort, reason] = [freshKey(), new AbortController(), new Error('the user left')];
    const held = await a.locks.acquire(key);
    const first = b.locks.acquire(key, { signal: abort.signal, waitMs: Infinity, ...inQueue });
    await untilWaiting(a, key);
    const lock = b.locks.acquire(key, { waitMs: 25_000, ...inQueue });
    await untilWaiting(a, key, 2);
    abort.abort(reason);
    expect(await rejection(first)).toBe(reason);
    await eventually(async () => (await store.queued(key)) === 1, { timeoutMs: 5_000 });
    await held.release();
    await lock;
    expect(getEventListeners(abort.signal, 'abort')).toEqual([]);
    const late = rejection(b.locks.acquire(freshKey(), { signal: abort.signal }));
    expect(await late).toBe(reason);
  });

  it('takes a timed-out waiter out of the queue at once', async () => {
    const [a, b, store] = [await startApp(), await startApp(), openStore()];
    const key = freshKey();
    const held = await a.locks.acquire(key);
    expect(await rejection(b.locks.acquire(key, { waitMs: 100 }))).toBeInstanceOf(LockWaitTimeoutError);
    await eventually(async () => (await store.queued(key)) === 0, { timeoutMs: 5_000 });
    expect((await b.locks.inspect(key)).holders).toMatchObject([{ fencingToken: held.fencingToken }]);
  });

  it('hands the lock on when a waiter cancels at the moment of its grant', async () => {
    const [a, b, store] = [await startApp(), await startApp(), openStore()];
    const count = { granted: 0, timedOut: 0, aborted: 0 };
    const lane = async (key: string, rounds: number) => {
      for (let round = 0; round < rounds; round++) {
        const abort = new AbortController();
        const held = await a.locks.acquire(key, { waitMs: 25_000 });
        const limit = round % 2 === 0 ? { waitMs: 10 + (round % 5) } : { waitMs: 25_000, signal: abort.signal };
        const next = b.locks.acquire(key, limit).then(
          (lock) => (count.granted++, lock.release()),
          (error: unknown) => void (error instanceof LockWaitTimeoutError ? count.timedOut++ : count.aborted++),
        );
        await new Promise((resolve) => setTimeout(resolve, 8 + (round % 7)));
        const released = held.release();
        if (round % 4 === 1) abort.abort();
        else setImmediate(() => abort.abort());
        await Promise.all([released, next]);
      }
    };
    const keys = Array.from({ length: 10 }, () => freshKey());
    await Promise.all(keys.map((key) => lane(key, 80)));
    expect(count.granted + count.timedOut + count.aborted).toBe(800);
    // Without a queue a release grants nothing, so a call that is cancelled right after it never gets the lock.
    if (topology.supports.queue) {
      expect(Math.min(count.granted, count.timedOut, count.aborted)).toBeGreaterThan(0);
    }
    await expectNothingAlive([a, b]);
    for (const key of keys) {
      expect(await a.locks.isLocked(key)).toBe(false);
      expect(await store.queued(key)).toBe(0);
    }
  }, 120_000);
});
