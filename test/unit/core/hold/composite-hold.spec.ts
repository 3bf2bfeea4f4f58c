import { getEventListeners } from 'node:events';
import { LockStoreError } from '../../../../lib/core/lock.errors.js';
import { lockOptions, startLocker } from '../../../support/core/core-parts.js';
import { settled } from '../../../support/core/fake-clock.js';
import { busy, gone, granted } from '../../../support/core/fake-store.js';
import { outcomeOf } from '../../../support/waiting/outcome.js';

/** A locker on a store that takes one key per command, in the order of the keys. */
function setUp() {
  const started = startLocker();
  const { store, locker } = started;
  store.groups = (keys) => keys.toSorted().map((key) => [key]);
  const acquire = (keys: string[], options = {}) => locker.acquire(locker.request(keys, lockOptions(options)));
  return { ...started, acquire };
}

/** Granted `a`, while `b` is busy. */
async function waitForSecond(options = {}) {
  const started = setUp();
  const { store, acquire } = started;
  store.onAcquire = ({ keys }) => (keys[0] === 'a' ? granted(3_000) : busy({ ahead: 1 }));
  const outcome = outcomeOf(acquire(['a', 'b'], options));
  await settled();
  const grantSecond = async () => {
    store.onAcquire = () => granted(3_000);
    store.listener!.onListening();
    await settled();
  };
  return { ...started, outcome, grantSecond };
}

describe('a lock of keys in several groups', () => {
  it('is acquired group by group in the order of the store, and lists its keys in that of the caller', async () => {
    const { store, acquire } = setUp();
    store.onAcquire = null;
    const acquiring = acquire(['c', 'a', 'b']);
    for (const [i, key] of ['a', 'b', 'c'].entries()) {
      await settled();
      expect(store.asked.at(-1)).toBe(key);
      store.acquires[i]!.reply(granted(3_000, 10 * (i + 1)));
    }
    const expected = { keys: ['c', 'a', 'b'], key: 'c, a, b', fencingTokens: [30, 10, 20], fencingToken: 30 };
    expect(await acquiring).toMatchObject(expected);
    expect(new Set(store.acquires.map(({ request }) => request.attempt)).size).toBe(3);
  });

  it('leaves all of them taken for `holdAtLeastMs` when it ends', async () => {
    const { store, acquire } = setUp();
    const lock = await acquire(['a', 'b'], { holdAtLeastMs: 5_000 });
    await lock.release();
    expect(store.kept).toEqual([['a', 5_000], ['b', 5_000]]); // prettier-ignore
  });
});

describe('a call for keys in several groups that does not get the last one', () => {
  it('leaves none of them taken, also with `holdAtLeastMs`', async () => {
    const { store, acquire } = setUp();
    store.onAcquire = ({ keys }) => (keys[0] === 'b' ? busy() : granted(5_000, 10));
    await expect(acquire(['a', 'b'], { waitMs: 0, holdAtLeastMs: 5_000 })).rejects.toMatchObject({ code: 'LOCK_BUSY' });
    expect(store.kept).toEqual([['a', 0]]);
  });

  it('gives back a late copy of a grant without `holdAtLeastMs`', async () => {
    const { store, clock, acquire } = setUp();
    store.onAcquire = null;
    const call = outcomeOf(acquire(['a', 'b'], { waitMs: 0, holdAtLeastMs: 60_000 }));
    await settled();
    store.acquires[0]!.fail(new LockStoreError('timed out'));
    await clock.advance(100);
    store.acquires[1]!.reply(granted(60_000, 5));
    await settled();
    store.acquires[2]!.reply(busy());
    await settled();
    expect(call.error).toMatchObject({ code: 'LOCK_BUSY' });
    store.acquires[0]!.replyLate(granted(60_000, 5));
    expect(store.kept).toEqual([['a', 0], ['a', 0]]); // prettier-ignore
  });

  it('leaves none of them taken when the shutdown ends a call that asks for its leases again', async () => {
    const options = { holdAtLeastMs: 60_000, leaseMs: 60_000, waitMs: 600_000 };
    const { store, clock, locker, outcome, grantSecond } = await waitForSecond(options);
    store.onRenew = null;
    clock.wallOffsetMs += 100_000;
    await grantSecond();
    const closing = locker.close(50);
    await clock.advance(2_000);
    await closing;
    expect(store.kept).toEqual([['a', 0], ['b', 0]]); // prettier-ignore
    store.renews[0]!.fail(new Error('no answer'));
    await clock.advance(2_000);
    expect(outcome).toHaveProperty('error');
  });
});

describe('a lock of keys in several groups whose machine slept while it waited for the last one', () => {
  /** Granted `a`, slept for longer than its lease, and is granted `b` now. */
  async function sleepMeanwhile(options = {}) {
    const started = await waitForSecond({ leaseMs: 3_000, ...options });
    const { clock, store, grantSecond } = started;
    store.onRenew = null;
    clock.wallOffsetMs += 10_000;
    await grantSecond();
    return started;
  }

  it('is granted when its first lease is confirmed', async () => {
    const { store, outcome } = await sleepMeanwhile();
    expect(outcome).toEqual({});
    for (const renewal of store.renews) renewal.reply([{ outcome: 'renewed', remainingMs: 3_000 }]);
    await settled();
    expect(outcome.value).toMatchObject({ held: true });
  });

  const caller = new AbortController();
  it.each<[string, object, (started: Awaited<ReturnType<typeof sleepMeanwhile>>) => unknown, object]>([
    [
      'its first lease is gone',
      {},
      ({ store }) => store.renews.forEach((renewal) => renewal.reply([gone(9)])),
      { code: 'LOCK_LOST', key: 'a', reason: 'taken' },
    ],
    [
      'no answer comes within the time limit of the call',
      { waitMs: 500 },
      async ({ clock, outcome }) => {
        await clock.advance(1_499);
        expect(outcome.error).toBeUndefined();
        await clock.advance(1);
      },
      {
        code: 'LOCK_STORE',
        key: 'a',
        message: expect.stringContaining('The lock "a" (write) was not acquired within 1500 ms'),
      },
    ],
    ['its caller aborts', { signal: caller.signal }, () => caller.abort(new Error('enough')), { message: 'enough' }],
    [
      'its first lease must not be renewed',
      { renew: false },
      ({ store }) => expect(store.renews).toEqual([]),
      { code: 'LOCK_LOST', key: 'a', reason: 'expired' },
    ],
  ])('is not granted when %s', async (_what, options, happens, error) => {
    const started = await sleepMeanwhile(options);
    await happens(started);
    await settled();
    const { store, locker, outcome } = started;
    expect(outcome.error).toMatchObject(error);
    expect([store.givenBack.includes('b'), locker.live.locks]).toEqual([true, 0]);
    expect(getEventListeners(caller.signal, 'abort')).toEqual([]);
  });
});

describe('a composite hold', () => {
  it('is lost once when a renewal finds one of its parts lost, with that error; no part is renewed from then on', async () => {
    const { clock, store, locker, acquire } = setUp();
    const lock = await acquire(['a', 'b', 'c']);
    const seen: unknown[] = [];
    lock.onLost((error) => seen.push(error));
    const { signal } = lock;
    store.onRenew = (requests) =>
      requests.map(({ key, leaseMs }) => (key === 'b' ? gone(0, true) : { outcome: 'renewed', remainingMs: leaseMs }));
    await clock.advance(1_000);
    expect(lock).toMatchObject({ held: false, remainingMs: 0, lost: { reason: 'revoked', key: 'b' } });
    expect([signal.reason, seen]).toEqual([lock.lost, [lock.lost]]);
    await expect(lock.extend(100)).rejects.toMatchObject({ code: 'LOCK_LOST' });
    const { length } = store.renews;
    await clock.advance(60_000);
    expect([store.renews.length, locker.live.locks, seen.length]).toEqual([length, 0, 1]);
    await lock.release();
    expect(store.givenBack.toSorted()).toEqual(['a', 'b', 'c']);
  });

  it('aborts a signal that is first read after the loss', async () => {
    const { clock, acquire } = setUp();
    const lock = await acquire(['a', 'b']);
    clock.jump(60_000);
    expect([lock.signal.aborted, lock.signal.reason]).toEqual([true, lock.lost]);
  });

  it('is proven for the shortest of its leases, and extends and downgrades all', async () => {
    const { clock, store, acquire } = setUp();
    store.onAcquire = ({ keys }) => granted(keys[0] === 'a' ? 2_000 : 3_000);
    const lock = await acquire(['a', 'b']);
    expect(lock.remainingMs).toBe(2_000 * 0.99 - 2);
    await lock.extend(60_000);
    await clock.advance(2_500);
    expect(lock.held).toBe(true);
    await lock.downgrade();
    const sent = store.renews
      .slice(-2)
      .flatMap(({ request }) => request.map(({ key, mode, leaseMs }) => [key, mode, leaseMs]));
    expect([lock.mode, sent]).toEqual([
      'read',
      [
        ['a', 'read', 0],
        ['b', 'read', 0],
      ],
    ]);
  });

  it.each(['a', 'b', 'c'])('is not downgraded in part when an outer call writes %s: it sends nothing', async (key) => {
    const { store, under } = setUp();
    await under(key, () =>
      under(['a', 'b', 'c'], async (lock) => {
        await expect(lock.downgrade()).rejects.toMatchObject({ code: 'LOCK_REENTRY' });
        expect([store.renews, lock.mode, lock.held]).toEqual([[], 'write', true]);
      }),
    );
  });
});
