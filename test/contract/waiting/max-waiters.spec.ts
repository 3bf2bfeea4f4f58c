import { LockBusyError, LockConfigurationError, type LockOptions, LockWaitTimeoutError } from '../../../lib/index.js';
import { closeAll, freshKey, startApp } from '../../support/apps/lock-app.js';
import { itWithQueue, itWithoutQueue, IN_ONE_SLOT } from '../../support/topologies/topology.js';
import { rejection } from '../../support/waiting/rejection.js';
import { untilWaiting } from '../../support/waiting/waiters.js';

const BOUNDED: LockOptions = { waitMs: 25_000, maxWaiters: 2 };

async function startTwo() {
  return { a: await startApp(IN_ONE_SLOT), b: await startApp(IN_ONE_SLOT), key: freshKey() };
}

afterEach(closeAll);

describe('maxWaiters', () => {
  itWithQueue('refuses the next call at once when the maximum number of others wait, in any instance', async () => {
    const { a, b, key } = await startTwo();
    const held = await a.locks.acquire(key);
    const first = a.locks.acquire(key, BOUNDED);
    await untilWaiting(b, key, 1);
    const second = b.locks.acquire(key, BOUNDED);
    await untilWaiting(a, key, 2);
    for (const { locks } of [a, b]) {
      const error = await rejection(locks.acquire(key, BOUNDED));
      expect(error).toBeInstanceOf(LockBusyError);
      expect(error).toMatchObject({ key, maxWaiters: 2, permits: undefined });
      expect(error.message).toContain('2 other calls wait already');
    }
    await untilWaiting(a, key, 2);
    await held.release();
    await (await first).release();
    expect(await (await second).release()).toBe(true);
  });

  itWithQueue('lets a call wait again once another has left the queue', async () => {
    const { a, b, key } = await startTwo();
    await a.locks.acquire(key);
    const leaving = new AbortController();
    const gone = rejection(a.locks.acquire(key, { ...BOUNDED, maxWaiters: 1, signal: leaving.signal }));
    await untilWaiting(b, key, 1);
    expect(await rejection(b.locks.acquire(key, { ...BOUNDED, maxWaiters: 1 }))).toBeInstanceOf(LockBusyError);
    leaving.abort(new Error('no time'));
    expect(await gone).toMatchObject({ message: 'no time' });
    await untilWaiting(b, key, 0);
    expect(await rejection(b.locks.acquire(key, { maxWaiters: 1, waitMs: 50 }))).toBeInstanceOf(LockWaitTimeoutError);
  });

  itWithQueue('does not bound other calls, and counts them', async () => {
    const { a, b, key } = await startTwo();
    const held = await a.locks.acquire(key);
    const unbounded = b.locks.acquire(key, { waitMs: 25_000, fair: false });
    await untilWaiting(a, key, 1);
    const bounded = a.locks.acquire(key, { ...BOUNDED, maxWaiters: 2 });
    await untilWaiting(a, key, 2);
    expect(await rejection(a.locks.acquire(key, { ...BOUNDED, mode: 'read' }))).toBeInstanceOf(LockBusyError);
    const last = b.locks.acquire(key, { waitMs: 25_000, fair: 'strict' });
    await untilWaiting(a, key, 3);
    await held.release();
    for (const lock of await Promise.all([unbounded, bounded, last].map((one) => one.then((won) => won.release()))))
      expect(lock).toBe(true);
  });

  itWithQueue('bounds the queue of several keys, and leaves none of them waited for', async () => {
    const { a, b, key } = await startTwo();
    const [x, y] = [`${key}:x`, `${key}:y`];
    const held = await a.locks.acquire(y);
    const first = a.locks.acquire([x, y], { ...BOUNDED, maxWaiters: 1 });
    await untilWaiting(b, y, 1);
    expect(await rejection(b.locks.acquire([y, x], { ...BOUNDED, maxWaiters: 1 }))).toBeInstanceOf(LockBusyError);
    await untilWaiting(b, y, 1);
    await held.release();
    expect(await (await first).release()).toBe(true);
    expect((await b.locks.inspect([x, y])).map(({ waiters }) => waiters)).toEqual([0, 0]);
  });

  itWithoutQueue('is refused, as there is no queue', async () => {
    const { locks } = await startApp();
    const error = await rejection(locks.acquire(freshKey(), { maxWaiters: 3 }));
    expect(error).toBeInstanceOf(LockConfigurationError);
    expect(error.message).toContain('`maxWaiters` (a queue)');
  });
});
