import {
  LockConfigurationError,
  LockLostError,
  LockNotHeldError,
  LockStoreError,
} from '../../../../lib/core/lock.errors.js';
import { FakeKeeper, heldLock, lockOptions, startLocker } from '../../../support/core/core-parts.js';
import { settled } from '../../../support/core/fake-clock.js';
import { gone, granted, released } from '../../../support/core/fake-store.js';

const THREE = ['c', 'a', 'b'];

describe('a lock of several keys that one command may name', () => {
  it('is requested with one command, and has the fencing tokens in the order of the caller', async () => {
    const { store, locker } = startLocker();
    // The store sorts: a, b, c get 10, 20 and 30.
    store.onAcquire = () => granted(3_000, 10, 20, 30);
    const lock = await locker.acquire(locker.request(THREE, lockOptions()));
    expect(store.asked).toEqual(['a+b+c']);
    expect(lock).toMatchObject({ keys: THREE, key: 'c, a, b', fencingTokens: [30, 10, 20], fencingToken: 30 });
  });

  it('names a key once that was passed twice', async () => {
    const { store, locker } = startLocker();
    const lock = await locker.acquire(locker.request(['b', 'a', 'b'], lockOptions()));
    expect([store.asked, lock.keys]).toEqual([['a+b'], ['b', 'a']]);
  });

  it('sends nothing when one of the keys is invalid', async () => {
    const { store, locker } = startLocker();
    expect(() => locker.request(['a', ''], lockOptions())).toThrow(expect.objectContaining({ code: 'LOCK_KEY' }));
    expect(store.acquires).toEqual([]);
  });

  it('is lost when one of them is, and reports it once', async () => {
    const { clock, store, reporter, locker } = startLocker();
    const lock = await locker.acquire(locker.request(THREE, lockOptions()));
    store.onRenew = (requests) =>
      requests.map(({ key, leaseMs }) => (key === 'b' ? gone(999) : { outcome: 'renewed', remainingMs: leaseMs }));
    await clock.advance(1_000);
    expect([lock.held, lock.lost?.reason, lock.lost?.key]).toEqual([false, 'taken', 'c, a, b']);
    expect(lock.signal.reason).toBe(lock.lost);
    expect([reporter.lines.length, locker.live.locks]).toEqual([1, 0]);
  });

  it('releases every key', async () => {
    const { store, locker } = startLocker();
    const lock = await locker.acquire(locker.request(THREE, lockOptions()));
    await lock.release();
    await lock.release();
    expect(store.givenBack).toEqual(THREE);
    expect(new Set(store.releases.map(({ request }) => request.attempt)).size).toBe(1);
  });

  it.each(['expired', 'unknown'] as const)('is lost when the release of one finds it %s', async (outcome) => {
    const { store, locker } = startLocker();
    const lock = await locker.acquire(locker.request(THREE, lockOptions()));
    store.onRelease = ({ key }) => (key === 'a' ? { outcome, holds: 0, lastToken: 5 } : released());
    await lock.release();
    expect(lock.lost).toMatchObject({ reason: 'expired' });
  });
});

describe('a downgrade', () => {
  it('covers each hold; the lock is a read lock from then on, with the same fencing tokens', async () => {
    const { store, locker } = startLocker();
    const lock = await locker.acquire(locker.request(THREE, lockOptions()));
    const before = lock.fencingTokens;
    await lock.downgrade();
    expect(store.downgrades.map(({ request }) => request.key)).toEqual(THREE);
    expect([lock.mode, lock.fencingTokens, lock.held]).toEqual(['read', before, true]);
  });

  it('sends nothing for a read lock', async () => {
    const { store, locker } = startLocker();
    await (await locker.acquire(locker.request(['k'], lockOptions({ mode: 'read' })))).downgrade();
    expect(store.downgrades).toEqual([]);
  });

  it('rejects with LockStoreError when it is not confirmed, but makes a read lock at once, and can be repeated', async () => {
    const { store, locker } = startLocker();
    const lock = await locker.acquire(locker.request(['k'], lockOptions()));
    store.onDowngrade = null;
    const done = lock.downgrade();
    expect(lock.mode).toBe('read');
    const cause = new LockStoreError('down');
    store.downgrades[0]!.fail(cause);
    await expect(done).rejects.toMatchObject({ code: 'LOCK_STORE', cause, key: 'k' });
    store.onDowngrade = () => ({ outcome: 'downgraded' });
    await lock.downgrade();
    expect([store.downgrades.length, lock.mode, lock.held]).toEqual([2, 'read', true]);
  });

  it.each([
    ['taken', gone(999)],
    ['expired', gone(0)],
    ['revoked', gone(0, true)],
  ] as const)('rejects with LockLostError when it finds a hold gone: %s', async (reason, reply) => {
    const { store, locker } = startLocker();
    const lock = await locker.acquire(locker.request(THREE, lockOptions()));
    store.onDowngrade = ({ key }) => (key === 'a' ? reply : { outcome: 'downgraded' });
    await expect(lock.downgrade()).rejects.toMatchObject({ code: 'LOCK_LOST', reason });
    expect(lock.signal.aborted).toBe(true);
  });
});

describe('a lock that has ended', () => {
  it.each(['extend', 'downgrade'] as const)('refuses to %s after its release, and after its loss', async (what) => {
    const [first, second] = [heldLock(), heldLock()];
    await first.release();
    second.lose('taken');
    const calling = (lock: typeof first) => (what === 'extend' ? lock.extend(100) : lock.downgrade());
    await expect(calling(first)).rejects.toThrow(LockNotHeldError);
    await expect(calling(second)).rejects.toThrow(LockLostError);
  });

  it('keeps its first loss, and calls each callback once', async () => {
    const keeper = new FakeKeeper();
    const lock = heldLock(keeper);
    const told: unknown[] = [];
    lock.onLost((error) => told.push(error));
    lock.onLost(() => told.push('not this'))();
    const { signal } = lock;
    lock.lose('taken');
    lock.lose('expired');
    await settled();
    expect([told, keeper.losses]).toEqual([[lock.lost], [lock.lost]]);
    expect([lock.lost?.reason, signal.reason]).toEqual(['taken', lock.lost]);
  });

  it('is not lost when its lease ends after the release', async () => {
    const keeper = new FakeKeeper();
    const lock = heldLock(keeper);
    await lock.release();
    keeper.clock.jump(60_000);
    expect([lock.lost, lock.held, lock.signal.aborted]).toEqual([null, false, false]);
  });
});

describe('an extension', () => {
  it.each([0, 0.5, Infinity])('refuses a lease of %p', async (leaseMs) => {
    await expect(heldLock().extend(leaseMs)).rejects.toThrow(LockConfigurationError);
  });

  it('refuses an invalid lease for a nested call and for keys in several groups, too', async () => {
    const { store, under } = startLocker();
    store.groups = (keys) => keys.map((key) => [key]);
    await under(['a', 'b'], async (joined) => {
      await expect(joined.extend(0.5)).rejects.toThrow(LockConfigurationError);
      await under('a', (nested) => expect(nested.extend(0.5)).rejects.toThrow(LockConfigurationError));
    });
    expect(store.renews).toEqual([]);
  });

  it('renews every hold, and proves the shortest lease', async () => {
    const { store, locker } = startLocker();
    const lock = await locker.acquire(locker.request(THREE, lockOptions()));
    const left = [60_000, 40_000, 50_000];
    store.onRenew = (requests) => requests.map((_, i) => ({ outcome: 'renewed', remainingMs: left[i]! }));
    await lock.extend(60_000);
    expect(lock.remainingMs).toBe(40_000 * 0.99 - 2);
  });

  it('rejects with LockStoreError without an answer, and the lock is held until its lease ends', async () => {
    const { store, locker } = startLocker();
    const lock = await locker.acquire(locker.request(['k'], lockOptions()));
    store.onRenew = () => [{ outcome: 'unknown', cause: new Error('down') }];
    await expect(lock.extend(60_000)).rejects.toMatchObject({ code: 'LOCK_STORE', key: 'k' });
    expect(lock.held).toBe(true);
  });
});
