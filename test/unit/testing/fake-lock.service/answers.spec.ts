import { LockBusyError, LockReentryError, LockStoreError, LockWaitTimeoutError } from '../../../../lib/index.js';
import { FakeLockService } from '../../../../lib/testing/index.js';

describe('a FakeLockService', () => {
  it('answers a release as a real service does', async () => {
    const locks = new FakeLockService();
    const [held, lost] = [await locks.acquire('a'), await locks.acquire(['b', 'c'])];
    locks.lose('c');
    expect([await held.release(), await held.release(), await lost.release()]).toEqual([true, false, false]);
  });

  it('answers a nested call with reentrant: false as a real service does', async () => {
    const locks = new FakeLockService();
    await locks.withLock('a', async () => {
      const nested = [
        locks.withLock('a', { reentrant: false }, () => 'inside'),
        locks.acquire('a', { reentrant: false }),
      ];
      for (const call of nested) await expect(call).rejects.toBeInstanceOf(LockReentryError);
    });
    expect(await locks.withLock('a', { reentrant: false }, () => 'alone')).toBe('alone');
    expect(locks.keys).toEqual(['a', 'a']);
  });

  it('answers requests for several keys as a real service does', async () => {
    const locks = new FakeLockService();
    const lock = await locks.acquire('b');
    expect(await locks.inspect(['a', 'b'])).toMatchObject([{ mode: 'free' }, { mode: 'write' }]);
    expect([await locks.isLocked(['a', 'b']), await locks.isLocked(['a', 'c'])]).toEqual([true, false]);
    expect([await locks.forceRelease(['a', 'b']), await locks.forceRelease(['a', 'b'])]).toEqual([true, false]);
    expect(lock.signal.reason).toMatchObject({ reason: 'revoked' });
  });

  it('waits until a lock is free as its rules say', async () => {
    const locks = new FakeLockService();
    await locks.waitUntilFree(['a', 'b']);
    const held = await locks.acquire('a');
    await expect(locks.waitUntilFree('a', { waitMs: 0 })).rejects.toBeInstanceOf(LockBusyError);
    await held.release();
    await locks.waitUntilFree('a', { waitMs: 0 });
    locks.refuse('a').fail('b');
    await expect(locks.waitUntilFree('a')).rejects.toBeInstanceOf(LockWaitTimeoutError);
    await expect(locks.waitUntilFree('a', { waitMs: 0 })).rejects.toBeInstanceOf(LockBusyError);
    await expect(locks.waitUntilFree('b')).rejects.toBeInstanceOf(LockStoreError);
  });
});
