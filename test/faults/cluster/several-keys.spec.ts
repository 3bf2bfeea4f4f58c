import { LockLostError } from '../../../lib/index.js';
import { openCluster, startClusterNode } from '../../support/redis/cluster-node.js';
import { eventually } from '../../support/waiting/eventually.js';
import { rejection } from '../../support/waiting/rejection.js';
import { type LockApp, closeAll, freshKey, startApp } from '../../support/apps/lock-app.js';

const PATIENT = { waitMs: 20_000 };
const NOTHING = { locks: 0, waiting: 0, releasing: 0, timers: 0 };

/** Two instances on a cluster of one node, and keys which are all in different slots. */
async function startOnCluster(count: number) {
  const { admin, port } = await startClusterNode();
  const start = () => startApp({ connection: openCluster(port) });
  const [a, b] = [await start(), await start()];
  const slots = new Map<unknown, string>();
  while (slots.size < count) {
    const key = freshKey();
    slots.set(await admin.call('CLUSTER', 'KEYSLOT', `lock:${key}`), key);
  }
  return { admin, a, b, keys: [...slots.values()] };
}

async function expectNothingAlive(...apps: LockApp[]): Promise<void> {
  const all = JSON.stringify(apps.map(() => NOTHING));
  await eventually(() => JSON.stringify(apps.map(({ locker }) => locker.live)) === all);
}

const areLocked = ({ locks }: LockApp, keys: readonly string[]) => Promise.all(keys.map((key) => locks.isLocked(key)));

const rotated = (keys: readonly string[], by: number) => [...keys.slice(by), ...keys.slice(0, by)];

describe('several keys in different slots of a cluster', () => {
  afterEach(closeAll);

  it('are handed over by messages, also with a given client that connects lazily', async () => {
    const { admin, port } = await startClusterNode();
    const client = openCluster(port, { lazyConnect: true });
    const { locks } = await startApp({ connection: client });
    await locks.withLock(freshKey(), () => undefined);
    await eventually(async () => ((await admin.pubsub('CHANNELS', '*')) as string[]).length === 1);
  });

  it('are one lock, with a token for each key in the order given, and are released together', async () => {
    const { a, b, keys } = await startOnCluster(4);
    const named = keys.toReversed();
    const lock = await a.locks.acquire([...named, named[0]!]);
    expect(lock.keys).toEqual(named);
    const states = await Promise.all(named.map((key) => b.locks.inspect(key)));
    expect(lock.fencingTokens).toEqual(states.map(({ holders }) => holders[0]!.fencingToken));
    for (const key of keys) expect(await b.locks.tryAcquire(key)).toBeNull();
    await lock.extend(60_000);
    expect(lock.remainingMs).toBeGreaterThan(30_000);
    await lock.release();
    expect(await areLocked(b, keys)).toEqual([false, false, false, false]);
    await expectNothingAlive(a);
  });

  it('are all locked, or none: a busy key leaves nothing held', async () => {
    const { a, b, keys } = await startOnCluster(3);
    for (const busyKey of keys) {
      const busy = await a.locks.acquire(busyKey);
      expect(await b.locks.tryAcquire(keys)).toBeNull();
      expect(await rejection(b.locks.acquire(keys, { waitMs: 50 }))).toMatchObject({ code: 'LOCK_WAIT_TIMEOUT' });
      await expectNothingAlive(b);
      expect(await areLocked(b, keys)).toEqual(keys.map((key) => key === busyKey));
      await busy.release();
    }
    expect(await b.locks.tryAcquire(keys)).not.toBeNull();
  });

  it('leave nothing behind when a wait is aborted', async () => {
    const { a, b, keys } = await startOnCluster(3);
    for (const busyKey of keys) {
      const [busy, abort, reason] = [await a.locks.acquire(busyKey), new AbortController(), new Error('enough')];
      const waiting = rejection(b.locks.acquire(keys, { ...PATIENT, signal: abort.signal }));
      await eventually(async () => (await a.locks.inspect(busyKey)).waiters === 1);
      abort.abort(reason);
      expect(await waiting).toBe(reason);
      await expectNothingAlive(b);
      expect(await areLocked(b, keys)).toEqual(keys.map((key) => key === busyKey));
      expect((await a.locks.inspect(busyKey)).waiters).toBe(0);
      await busy.release();
    }
  });

  it('keep a call waiting until all are free, and wake the waiters of each key', async () => {
    const { a, b, keys } = await startOnCluster(3);
    const held = await Promise.all(keys.map((key) => a.locks.acquire(key)));
    const waiting = b.locks.acquire(keys, PATIENT);
    for (const lock of held.toReversed()) await lock.release();
    const lock = await waiting;
    lock.fencingTokens.forEach((token, i) => expect(token).toBeGreaterThan(held[i]!.fencingToken));
    const single = keys.map((key) => a.locks.acquire(key, PATIENT));
    await eventually(async () => (await b.locks.inspect(keys[2]!)).waiters === 1);
    await lock.release();
    expect((await Promise.all(single)).map((one) => one.held)).toEqual([true, true, true]);
  });

  it('are lost together', async () => {
    const { admin, a, b, keys } = await startOnCluster(3);
    const lock = await a.locks.acquire(keys);
    await admin.del(`lock:${keys[1]!}`);
    expect(await rejection(lock.extend(60_000))).toBeInstanceOf(LockLostError);
    expect([lock.held, lock.signal.aborted]).toEqual([false, true]);
    await lock.release();
    await eventually(async () => (await areLocked(b, keys)).every((locked) => !locked));
    await expectNothingAlive(a);
  });

  it('do not deadlock, whatever the order in which they are given', async () => {
    const { a, b, keys } = await startOnCluster(4);
    const inside = new Set<string>();
    const lane = async ({ locks }: LockApp, first: number) => {
      for (let round = 0; round < 20; round++) {
        const named = rotated(first % 2 ? keys : keys.toReversed(), (first + round) % 4).slice(0, 2 + (round % 3));
        await locks.withLock(named, PATIENT, async (lock) => {
          expect(lock.keys).toEqual(named);
          for (const key of named) expect(inside.has(key)).toBe(false);
          for (const key of named) inside.add(key);
          await new Promise(setImmediate);
          for (const key of named) inside.delete(key);
        });
      }
    };
    await Promise.all([lane(a, 0), lane(b, 1), lane(a, 2), lane(b, 3)]);
    await expectNothingAlive(a, b);
    expect(await areLocked(a, keys)).toEqual([false, false, false, false]);
  });

  it('are entered where an outer call holds them, and acquired where it does not', async () => {
    const { a, b, keys } = await startOnCluster(3);
    await a.locks.withLock(keys[1]!, async ({ fencingToken }) => {
      const tokens = await a.locks.withLock(keys, PATIENT, async (lock) => {
        expect(await areLocked(b, keys)).toEqual([true, true, true]);
        return lock.fencingTokens;
      });
      expect(tokens[1]).toBe(fencingToken);
      expect(await areLocked(b, keys)).toEqual([false, true, false]);
    });
    await expectNothingAlive(a);
  });
});
