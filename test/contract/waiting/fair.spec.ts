import { type Lock, LockConfigurationError, LockWaitTimeoutError } from '../../../lib/index.js';
import { eventually } from '../../support/waiting/eventually.js';
import { closeAll, freshKey, startApp } from '../../support/apps/lock-app.js';
import { openStore } from '../support/stores.js';
import { itWithQueue, itWithoutQueue, topology } from '../../support/topologies/topology.js';
import { enqueue, releaseAndAbort, untilWaiting } from '../../support/waiting/waiters.js';
import { rejection } from '../../support/waiting/rejection.js';

const PATIENT = { waitMs: 25_000 };
const NOTHING = { locks: 0, waiting: 0, releasing: 0, timers: 0 };

async function startTwo() {
  return { a: await startApp(), b: await startApp(), store: openStore(), key: freshKey() };
}

afterEach(closeAll);

describe('fair: first in, first out', () => {
  itWithQueue('grants in the order of arrival, across instances', async () => {
    const apps = [await startApp(), await startApp(), await startApp()];
    const [key, order] = [freshKey(), [] as number[]];
    const held = await apps[0]!.locks.acquire(key);
    const tokens: Promise<number>[] = [];
    for (let i = 0; i < 10; i++) {
      const { lock } = await enqueue(apps[i % 3]!, key);
      tokens.push(
        lock.then(async (granted) => {
          order.push(i);
          await granted.release();
          return granted.fencingToken;
        }),
      );
    }
    await held.release();
    const granted = await Promise.all(tokens);
    expect(order).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    expect(granted).toEqual(granted.toSorted((one, two) => one - two));
  });

  itWithQueue('does not let a newcomer overtake waiters', async () => {
    const { a, b, key } = await startTwo();
    const reader = await a.locks.acquire(key, { mode: 'read' });
    const { lock } = await enqueue(b, key);
    expect(await a.locks.tryAcquire(key, { mode: 'read' })).toBeNull();
    expect(await a.locks.tryAcquire(key)).toBeNull();
    await reader.release();
    expect((await lock).held).toBe(true);
  });
});

describe('fair: waiters that miss their turn', () => {
  it('leave the queue at once when they time out or are aborted', async () => {
    const { a, b, key } = await startTwo();
    const [abort, reason] = [new AbortController(), new Error('the user left')];
    const held = await a.locks.acquire(key);
    const waiters = async () => (await a.locks.inspect(key)).waiters;
    const aborted = rejection(b.locks.acquire(key, { waitMs: Infinity, signal: abort.signal }));
    const read = rejection(b.locks.acquire(key, { waitMs: Infinity, signal: abort.signal, mode: 'read' }));
    await untilWaiting(a, key, 2);
    abort.abort(reason);
    expect([await aborted, await read]).toEqual([reason, reason]);
    await eventually(async () => (await waiters()) === 0);
    expect(await rejection(b.locks.acquire(key, { waitMs: 100 }))).toBeInstanceOf(LockWaitTimeoutError);
    await eventually(async () => (await waiters()) === 0);
    expect(held.held).toBe(true);
    await held.release();
    expect(await b.locks.tryAcquire(key)).not.toBeNull();
  });

  it('hand the lock on when they are aborted at the moment of their grant', async () => {
    const { a, b } = await startTwo();
    const count = { granted: 0, aborted: 0 };
    const lane = async (key: string) => {
      for (let round = 0; round < 20; round++) {
        const [abort, held] = [new AbortController(), await a.locks.acquire(key, PATIENT)];
        const next = b.locks.acquire(key, { ...PATIENT, signal: abort.signal }).then(
          (lock) => (count.granted++, lock.release()),
          () => void count.aborted++,
        );
        await untilWaiting(a, key);
        const released = releaseAndAbort(held, abort, next, round);
        await Promise.all([released, next]);
        await (await a.locks.acquire(key, PATIENT)).release();
      }
    };
    const keys = Array.from({ length: 10 }, () => freshKey());
    await Promise.all(keys.map(lane));
    expect(count.granted + count.aborted).toBe(200);
    expect(Math.min(count.granted, count.aborted)).toBeGreaterThan(0);
    await eventually(() => JSON.stringify([a.locker.live, b.locker.live]) === JSON.stringify([NOTHING, NOTHING]));
    for (const key of keys) expect(await a.locks.inspect(key)).toMatchObject({ mode: 'free', waiters: 0 });
  });
});

describe('fair: false', () => {
  it('still grants a waiting call, alone or among others', async () => {
    const { a, b, key } = await startTwo();
    const held = await a.locks.acquire(key);
    const alone = await enqueue(b, key, { fair: false });
    await held.release();
    const next = await alone.lock;
    const all: Promise<Lock>[] = [];
    for (let i = 0; i < 8; i++) {
      const fair = i % 4 < 2 && topology.supports.queue ? 'strict' : false;
      all.push((await enqueue([a, b][i % 2]!, key, { fair })).lock);
    }
    await next.release();
    const tokens = await Promise.all(all.map(async (lock) => {
      const { fencingToken } = await lock;
      await (await lock).release();
      return fencingToken;
    })); // prettier-ignore
    expect(new Set(tokens).size).toBe(8);
    expect(await a.locks.inspect(key)).toMatchObject({ mode: 'free', waiters: 0 });
  });

  it('may overtake waiters', async () => {
    const { a, b, key } = await startTwo();
    const reader = await a.locks.acquire(key, { mode: 'read' });
    const { lock } = await enqueue(b, key);
    const overtaking = await a.locks.acquire(key, { mode: 'read', fair: false, waitMs: 0 });
    await Promise.all([reader.release(), overtaking.release()]);
    expect((await lock).fencingToken).toBeGreaterThan(overtaking.fencingToken);
  });
});

describe('fair: true', () => {
  itWithoutQueue('is refused with LockConfigurationError where there is no queue', async () => {
    const { a, key } = await startTwo();
    const error = await rejection(a.locks.acquire(key, { fair: true }));
    expect(error).toBeInstanceOf(LockConfigurationError);
    expect(error.message).toContain('fair');
    expect(await a.locks.isLocked(key)).toBe(false);
  });
});
