import { type Lock, LockConfigurationError } from '../../../lib/index.js';
import { closeAll, freshKey, startApp } from '../../support/apps/lock-app.js';
import { openStore } from '../support/stores.js';
import { itWithQueue, itWithoutQueue, topology } from '../../support/topologies/topology.js';
import { enqueue, untilWaiting } from '../../support/waiting/waiters.js';
import { rejection } from '../../support/waiting/rejection.js';

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

  itWithQueue('reports how many wait ahead, without those that have given up', async () => {
    const { a, b, key } = await startTwo();
    const held = await a.locks.acquire(key);
    const first = await enqueue(b, key);
    for (let i = 0; i < 3; i++) {
      await rejection(b.locks.acquire(key, { fair: 'strict', waitMs: 1 }));
    }
    await untilWaiting(a, key);
    const ahead = new Promise((resolve) => void a.locks.events.on('waiting', (event) => resolve(event.ahead)));
    const last = a.locks.acquire(key, { fair: 'strict', waitMs: 25_000 });
    expect(await ahead).toBe(1);
    await held.release();
    await (await first.lock).release();
    await (await last).release();
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
