import { LockStoreError } from '../../../../lib/core/lock.errors.js';
import { type ResolvedLockOptions } from '../../../../lib/core/lock.options.js';
import { lockOptions, startLocker } from '../../../support/core/core-parts.js';
import { gone, granted } from '../../../support/core/fake-store.js';

const THREE = ['c', 'a', 'b'];

async function hold(keys: readonly string[] = THREE, options: Partial<ResolvedLockOptions> = {}) {
  const started = startLocker();
  const { locker, store } = started;
  // The store sorts: a, b, c get 10, 20 and 30.
  store.onAcquire = ({ keys: { length }, leaseMs }) => granted(leaseMs, ...[10, 20, 30].slice(0, length));
  const lock = await locker.acquire(locker.request(keys, lockOptions(options)));
  return { ...started, lock };
}

describe('a downgrade', () => {
  it('covers each hold; the lock is a read lock from then on, with the same fencing tokens', async () => {
    const { store, lock } = await hold();
    await lock.downgrade();
    expect(store.renews[0]!.request.map(({ key, mode, leaseMs }) => [key, mode, leaseMs])).toEqual(
      THREE.map((key) => [key, 'read', 0]),
    );
    expect([lock.mode, lock.fencingTokens, lock.held]).toEqual(['read', [30, 10, 20], true]);
  });

  it('rejects when it is not confirmed, but becomes a read lock at once, and can be repeated', async () => {
    const { store, lock } = await hold(['k']);
    store.onRenew = null;
    const done = lock.downgrade();
    expect(lock.mode).toBe('read');
    const cause = new LockStoreError('down');
    store.renews[0]!.reply([{ outcome: 'unknown', cause }]);
    await expect(done).rejects.toMatchObject({ code: 'LOCK_STORE', cause, key: 'k' });
    store.onRenew = () => [{ outcome: 'renewed', remainingMs: 3_000 }];
    await lock.downgrade();
    expect([store.renews.length, lock.mode, lock.held]).toEqual([2, 'read', true]);
  });

  it.each([
    ['taken', gone(999)],
    ['expired', gone(0)],
    ['revoked', gone(0, true)],
  ] as const)('rejects with LockLostError when it finds a hold gone: %s', async (reason, reply) => {
    const { store, lock } = await hold();
    store.onRenew = (requests) =>
      requests.map(({ key }) => (key === 'a' ? reply : { outcome: 'renewed', remainingMs: 3_000 }));
    await expect(lock.downgrade()).rejects.toMatchObject({ code: 'LOCK_LOST', reason });
    expect(lock.signal.aborted).toBe(true);
  });
});
