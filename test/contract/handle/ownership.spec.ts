import { LockNotHeldError, type Lock } from '../../../lib/index.js';
import { eventually } from '../../support/waiting/eventually.js';
import { rejection } from '../../support/waiting/rejection.js';
import { closeAll, freshKey, startApp } from '../../support/apps/lock-app.js';
import { itWithPermits } from '../../support/topologies/topology.js';
import { deleteLock } from '../support/stores.js';

describe('promise 2: ownership', () => {
  afterEach(closeAll);

  it('does not release a lock that another client got after the lease ended', async () => {
    const [a, b] = [await startApp(), await startApp()];
    const key = freshKey();
    const expired = await a.locks.acquire(key, { leaseMs: 60, renew: false });
    const taken = await b.locks.acquire(key);
    await expired.release();
    await expired.release();
    const { holders } = await a.locks.inspect(key);
    expect(holders.map(({ fencingToken }) => fencingToken)).toEqual([taken.fencingToken]);
    await taken.extend(60_000);
  });

  it('treats two releases as one, even when they are concurrent', async () => {
    const [a, b] = [await startApp(), await startApp()];
    const key = freshKey();
    const lock = await a.locks.acquire(key);
    await Promise.all([lock.release(), lock.release()]);
    const next = await b.locks.acquire(key);
    await lock.release();
    expect((await a.locks.inspect(key)).holders).toMatchObject([{ fencingToken: next.fencingToken }]);
    expect(lock.held).toBe(false);
    expect(lock.signal.aborted).toBe(false);
  });

  it('lets each of several readers of one instance release only its own hold', async () => {
    const { locks } = await startApp();
    const key = freshKey();
    const [one, two] = [await locks.acquire(key, { mode: 'read' }), await locks.acquire(key, { mode: 'read' })];
    await one.release();
    await one.release();
    expect((await locks.inspect(key)).holders).toMatchObject([{ fencingToken: two.fencingToken, mode: 'read' }]);
  });

  it('rejects extend() of a released lock with LockNotHeldError', async () => {
    const { locks } = await startApp();
    const lock = await locks.acquire(freshKey());
    await lock.release();
    expect(await rejection(lock.extend(5_000))).toBeInstanceOf(LockNotHeldError);
    expect(await locks.isLocked(lock.key)).toBe(false);
  });

  it('releases at the end of an `await using` block, even when it throws', async () => {
    const { locks } = await startApp();
    const key = freshKey();
    const error = new Error('from the block');
    const block = async () => {
      await using lock = await locks.acquire(key);
      expect(lock.held).toBe(true);
      expect(await locks.isLocked(key)).toBe(true);
      throw error;
    };
    expect(await rejection(block())).toBe(error);
    expect(await locks.isLocked(key)).toBe(false);
  });
});

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
