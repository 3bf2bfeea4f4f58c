import { LockConfigurationError, LockKeyError, LockReentryError } from '../../../lib/index.js';
import { closeAll, freshKey, startApp } from '../../support/apps/lock-app.js';
import { outcomeOf } from '../../support/waiting/outcome.js';
import { rejection } from '../../support/waiting/rejection.js';
import { ownPlace } from '../support/stores.js';

const PATIENT = { waitMs: 25_000 };

describe('waitUntilFree', () => {
  afterEach(closeAll);

  it('resolves for a lock that is not held, and writes nothing', async () => {
    const place = await ownPlace();
    const { locks } = await startApp(place.options);
    await locks.waitUntilFree('never-used', { waitMs: 0 });
    await locks.waitUntilFree(['never-used', 'nor this']);
    expect(await place.keys()).toEqual([]);
  });

  it('resolves when the holder in another process releases, or dies', async () => {
    const [a, b] = [await startApp(), await startApp()];
    const [released, dropped] = [freshKey(), freshKey()];
    const held = await a.locks.acquire(released);
    await a.locks.acquire(dropped, { leaseMs: 1_000, renew: false });
    const first = outcomeOf(b.locks.waitUntilFree(released, PATIENT));
    const second = b.locks.waitUntilFree(dropped, PATIENT);
    await second;
    expect(first).toEqual({});
    await held.release();
    await b.locks.waitUntilFree(released, PATIENT);
    expect(await b.locks.isLocked([released, dropped])).toBe(false);
  });

  it('takes nothing, and delays no other call', async () => {
    const [a, b] = [await startApp(), await startApp()];
    const key = freshKey();
    const held = await a.locks.acquire(key);
    const waiting = Array.from({ length: 20 }, () => b.locks.waitUntilFree(key, PATIENT));
    expect((await a.locks.inspect(key)).waiters).toBe(0);
    const next = a.locks.acquire(key, PATIENT);
    await held.release();
    await (await next).release();
    await Promise.all(waiting);
    expect(b.locks.activity).toEqual({ held: 0, waiting: 0 });
  });

  it('is refused inside a call that holds the lock', async () => {
    const { locks } = await startApp();
    const key = freshKey();
    await locks.withLock(key, async () => {
      expect(await rejection(locks.waitUntilFree(key))).toBeInstanceOf(LockReentryError);
    });
  });

  it('checks its key and its options before anything is sent', async () => {
    const { locks } = await startApp();
    expect(await rejection(locks.waitUntilFree(''))).toBeInstanceOf(LockKeyError);
    for (const options of [{ waitMs: -1 }, { signal: 1 }, { leaseMs: 1_000 }, null]) {
      expect(await rejection(locks.waitUntilFree('k', options as never))).toBeInstanceOf(LockConfigurationError);
    }
  });
});
