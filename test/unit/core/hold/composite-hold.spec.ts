import { getEventListeners } from 'node:events';
import { lockOptions, startLocker } from '../../../support/core/core-parts.js';
import { settled } from '../../../support/core/fake-clock.js';
import { busy, gone, granted } from '../../../support/core/fake-store.js';
import { gate } from '../../../support/waiting/gate.js';
import { outcomeOf } from '../../../support/waiting/outcome.js';

const NOTHING = { locks: 0, waiting: 0, releasing: 0, timers: 0 };

/** A locker on a store that takes one key per command, in the order of the keys. */
function setUp() {
  const started = startLocker();
  const { store, locker } = started;
  store.groups = (keys) => keys.toSorted().map((key) => [key]);
  const acquire = (keys: string[], options = {}) => locker.acquire(locker.request(keys, lockOptions(options)));
  const revoke = (nth: number) => store.listener!.onWakeUp(store.acquires[nth]!.request.attempt, { kind: 'revoked' });
  return { ...started, acquire, revoke };
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

  it('waits for each group only for what is left of waitMs', async () => {
    const { clock, store, locker, acquire } = setUp();
    store.onAcquire = () => busy({ ahead: 1 });
    const outcome = outcomeOf(acquire(['a', 'b'], { waitMs: 2_000 }));
    await clock.advance(1_500);
    store.onAcquire = ({ keys }) => (keys[0] === 'a' ? granted(3_000) : busy({ ahead: 1 }));
    store.listener!.onListening();
    await clock.advance(499);
    expect([outcome.error, store.asked.includes('b')]).toEqual([undefined, true]);
    await clock.advance(1);
    expect(outcome.error).toMatchObject({ code: 'LOCK_WAIT_TIMEOUT', key: 'b' });
    expect([store.givenBack.toSorted(), locker.live]).toEqual([['a', 'b'], NOTHING]);
  });

  it.each([0, 500, 3_000])('rejects within waitMs and a second when Redis falls silent (waitMs %i)', async (waitMs) => {
    const { clock, store, acquire, locker } = setUp();
    store.onAcquire = store.onRelease = null;
    const outcome = outcomeOf(acquire(['a', 'b', 'c'], { waitMs, leaseMs: 30_000 }));
    for (const i of [0, 1]) {
      store.acquires[i]!.reply(granted(30_000));
      await settled();
    }
    await clock.advance(Math.max(waitMs, 1_000) - 1);
    expect(outcome.error).toBeUndefined();
    await clock.advance(Math.min(waitMs, 1_000) + 1);
    expect([outcome.error, locker.live.waiting]).toMatchObject([{ code: 'LOCK_STORE' }, 0]);
  });

  it('rejects with LockWaitTimeoutError, not LockBusyError, when the first group took all of waitMs', async () => {
    const { clock, store, acquire } = setUp();
    store.onAcquire = null;
    const outcome = outcomeOf(acquire(['a', 'b'], { waitMs: 900 }));
    clock.jump(900);
    store.acquires[0]!.reply(granted(3_000));
    await settled();
    store.acquires[1]!.reply(busy());
    await clock.advance(1);
    expect(outcome.error).toMatchObject({ code: 'LOCK_WAIT_TIMEOUT' });
  });

  it('releases the first groups before it rejects with the failure of a later one', async () => {
    const { store, locker, acquire } = setUp();
    store.onAcquire = ({ keys }) => (keys[0] === 'c' ? busy() : granted(3_000));
    await expect(acquire(['a', 'b', 'c'], { waitMs: 0 })).rejects.toMatchObject({ code: 'LOCK_BUSY', key: 'c' });
    expect([store.givenBack.toSorted(), locker.live]).toEqual([['a', 'b'], NOTHING]);
  });

  it.each(['abort', 'shutdown'])('releases the first groups on %s', async (what) => {
    const controller = new AbortController();
    const { store, locker, outcome } = await waitForSecond({ signal: controller.signal });
    expect(locker.live).toMatchObject({ locks: 1, waiting: 1 });
    if (what === 'abort') controller.abort(new Error('the user went away'));
    else await locker.close(1_000);
    await settled();
    const reason: unknown = controller.signal.reason;
    expect(outcome.error).toEqual(what === 'abort' ? reason : expect.objectContaining({ code: 'LOCK_SHUTDOWN' }));
    expect([store.givenBack.toSorted(), locker.live]).toEqual([['a', 'b'], NOTHING]);
  });

  it('is not granted when one of its groups was lost while it waited for another', async () => {
    const { store, outcome, revoke, grantSecond } = await waitForSecond();
    revoke(0);
    await grantSecond();
    expect(outcome.error).toMatchObject({ code: 'LOCK_LOST', key: 'a' });
    expect(store.givenBack).toContain('b');
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
  it('is lost once when a renewal finds that one of its parts is, with its error; no part is renewed from then on', async () => {
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

  it('fires a signal that is first read after the loss', async () => {
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
    expect([lock.mode, store.downgrades.map(({ request }) => request.key)]).toEqual(['read', ['a', 'b']]);
  });

  it.each(['a', 'b', 'c'])('is not downgraded in part when an outer call writes %s: it sends nothing', async (key) => {
    const { store, under } = setUp();
    await under(key, () =>
      under(['a', 'b', 'c'], async (lock) => {
        await expect(lock.downgrade()).rejects.toMatchObject({ code: 'LOCK_REENTRY' });
        expect([store.downgrades, lock.mode, lock.held]).toEqual([[], 'write', true]);
      }),
    );
  });

  it('releases every part once, and refuses what comes after', async () => {
    const { store, locker, acquire } = setUp();
    const lock = await acquire(['a', 'b']);
    await Promise.all([lock.release(), lock.release()]);
    expect([store.givenBack.toSorted(), locker.live]).toEqual([['a', 'b'], NOTHING]);
    expect([lock.held, lock.isReleased]).toEqual([false, true]);
    for (const refused of [lock.extend(100), lock.downgrade()]) {
      await expect(refused).rejects.toMatchObject({ code: 'LOCK_NOT_HELD' });
    }
  });

  it('keeps all of its parts while a nested call is inside', async () => {
    const { store, under } = setUp();
    const { opened, open } = gate();
    const started: Promise<void>[] = [];
    await under(['a', 'b'], () => {
      started.push(under('b', () => opened));
      return settled();
    });
    expect(store.givenBack).toEqual([]);
    open();
    await Promise.all(started);
    expect([store.asked, store.givenBack.toSorted()]).toEqual([['a', 'b'], ['a', 'b']]); // prettier-ignore
  });
});
