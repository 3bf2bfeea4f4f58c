import { type Lock } from '../../../lib/index.js';
import { eventually } from '../../support/waiting/eventually.js';
import { closeAll, freshKey, startApp } from '../../support/apps/lock-app.js';
import { deleteLock } from '../support/stores.js';
import { itWithPermits } from '../../support/topologies/topology.js';

describe('release()', () => {
  afterEach(closeAll);

  it('resolves to true, once, when the lock was still held', async () => {
    const { locks } = await startApp();
    const key = freshKey();
    for (const name of [key, [key, freshKey()]]) {
      const lock = await locks.acquire(name);
      expect([await lock.release(), await lock.release(), await locks.isLocked(key)]).toEqual([true, false, false]);
    }
    const lock = await locks.acquire(key, { mode: 'read' });
    expect(await Promise.all([lock.release(), lock.release()])).toEqual([true, false]);
  });

  itWithPermits('resolves to true for a permit', async () => {
    const { locks } = await startApp();
    const key = freshKey();
    const held = [0, 1].map(() => locks.acquire(key, { mode: 'read', permits: 2 }));
    for (const lock of await Promise.all(held)) expect(await lock.release()).toBe(true);
  });

  it('resolves to true inside withLock and in a nested call', async () => {
    const { locks } = await startApp();
    const key = freshKey();
    const inner = await locks.withLock(key, async (outer) => {
      const told = await locks.withLock(key, async (nested) => [await nested.release(), await nested.release()]);
      return [...told, outer.held, await outer.release(), await outer.release()];
    });
    expect(inner).toEqual([true, false, true, true, false]);
    expect(await locks.isLocked(key)).toBe(false);
  });

  it.each<[string, (lock: Lock, key: string) => unknown]>([
    ['its lease has ended', (lock) => eventually(() => lock.signal.aborted)],
    ['its key was deleted', (_lock, key) => deleteLock(key)],
  ])('resolves to false when %s', async (_what, lose) => {
    const { locks } = await startApp();
    const key = freshKey();
    const lock = await locks.acquire(key, { leaseMs: 1_500, renew: false });
    await lose(lock, key);
    expect([await lock.release(), lock.signal.aborted]).toEqual([false, true]);
  });

  it('resolves to false when the lock was revoked, and when one of several keys is gone', async () => {
    const [a, b] = [await startApp(), await startApp()];
    const [key, other] = [freshKey(), freshKey()];
    const lock = await a.locks.acquire(key);
    await b.locks.forceRelease(key);
    expect(await lock.release()).toBe(false);
    const both = await a.locks.acquire([key, other]);
    await deleteLock(other);
    expect(await both.release()).toBe(false);
    expect(await b.locks.isLocked([key, other])).toBe(false);
  });
});
