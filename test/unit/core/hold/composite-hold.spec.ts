import { getEventListeners } from 'node:events';
import {
  LockLostError,
  LockNotHeldError,
  LockReentryError,
  LockShutdownError,
} from '../../../../lib/core/lock.errors.js';
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
  return { ...started, acquire };
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
    const lock = await acquiring;
    expect(lock).toMatchObject({
      keys: ['c', 'a', 'b'],
      key: 'c, a, b',
      fencingTokens: [30, 10, 20],
      fencingToken: 30,
    });
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
    store.onAcquire = null;
    store.onRelease = null;
    const outcome = outcomeOf(acquire(['a', 'b', 'c'], { waitMs, leaseMs: 30_000 }));
    for (const i of [0, 1]) {
      store.acquires[i]!.reply(granted(30_000));
      await settled();
    }
    await clock.advance(Math.max(waitMs, 1_000) - 1);
    expect(outcome.error).toBeUndefined();
    await clock.advance(Math.max(waitMs + 1_000 - Math.max(waitMs, 1_000), 0) + 1);
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
    const { store, locker, acquire } = setUp();
    const controller = new AbortController();
    store.onAcquire = ({ keys }) => (keys[0] === 'a' ? granted(3_000) : busy({ ahead: 1 }));
    const outcome = outcomeOf(acquire(['a', 'b'], { signal: controller.signal }));
    await settled();
    expect(locker.live).toMatchObject({ locks: 1, waiting: 1 });
    const reason = new Error('the user went away');
    if (what === 'abort') controller.abort(reason);
    else await locker.close(1_000);
    await settled();
    if (what === 'abort') expect(outcome.error).toBe(reason);
    else expect(outcome.error).toBeInstanceOf(LockShutdownError);
    expect([store.givenBack.toSorted(), locker.live]).toEqual([['a', 'b'], NOTHING]);
  });

  it('is not granted when one of its groups was lost while it waited for another', async () => {
    const { store, acquire } = setUp();
    store.onAcquire = ({ keys }) => (keys[0] === 'a' ? granted(3_000) : busy({ ahead: 1 }));
    const outcome = outcomeOf(acquire(['a', 'b']));
    await settled();
    store.listener!.onWakeUp(store.acquires[0]!.request.attempt, { kind: 'revoked' });
    store.onAcquire = () => granted(3_000);
    store.listener!.onListening();
    await settled();
    expect(outcome.error).toMatchObject({ code: 'LOCK_LOST', key: 'a' });
    expect(store.givenBack).toContain('b');
  });
});

describe('a lock of keys in several groups whose machine slept while it waited for the last one', () => {
  /** Granted `a`, slept for longer than its lease, and is granted `b` now. */
  async function sleepMeanwhile(options = {}) {
    const started = setUp();
    const { clock, store, acquire } = started;
    store.onAcquire = ({ keys }) => (keys[0] === 'a' ? granted(3_000) : busy({ ahead: 1 }));
    store.onRenew = null;
    const outcome = outcomeOf(acquire(['a', 'b'], { leaseMs: 3_000, ...options }));
    await settled();
    clock.wallOffsetMs += 10_000;
    store.onAcquire = () => granted(3_000);
    store.listener!.onListening();
    await settled();
    return { ...started, outcome };
  }
  const renewed = { outcome: 'renewed', remainingMs: 3_000 } as const;

  it('is granted when its first lease is confirmed', async () => {
    const { store, outcome } = await sleepMeanwhile();
    expect([outcome.value, outcome.error]).toEqual([undefined, undefined]);
    for (const renewal of store.renews) renewal.reply([renewed]);
    await settled();
    expect(outcome.value).toMatchObject({ held: true });
  });

  it('is not granted when its first lease is gone', async () => {
    const { store, locker, outcome } = await sleepMeanwhile();
    for (const renewal of store.renews) renewal.reply([gone(9)]);
    await settled();
    expect(outcome.error).toMatchObject({ code: 'LOCK_LOST', key: 'a', reason: 'taken' });
    expect(store.givenBack).toContain('b');
    expect(locker.live.locks).toBe(0);
  });

  it('is not granted when nobody answers within the time limit of the call', async () => {
    const { clock, store, locker, outcome } = await sleepMeanwhile({ waitMs: 500 });
    await clock.advance(1_499);
    expect(outcome.error).toBeUndefined();
    await clock.advance(1);
    const text = expect.stringContaining('The lock "a" (write) was not acquired within 1500 ms');
    expect(outcome.error).toMatchObject({ code: 'LOCK_STORE', key: 'a', message: text });
    expect(store.givenBack).toEqual(expect.arrayContaining(['a', 'b']));
    expect(locker.live.locks).toBe(0);
  });

  it('is not granted when its caller aborts', async () => {
    const caller = new AbortController();
    const { signal } = caller;
    const { store, outcome } = await sleepMeanwhile({ signal });
    const reason = new Error('enough');
    caller.abort(reason);
    await settled();
    expect(outcome.error).toBe(reason);
    expect(store.givenBack).toEqual(expect.arrayContaining(['a', 'b']));
    expect(getEventListeners(signal, 'abort')).toEqual([]);
  });

  it('is not granted when its first lease must not be renewed', async () => {
    const { store, outcome } = await sleepMeanwhile({ renew: false });
    expect(outcome.error).toMatchObject({ code: 'LOCK_LOST', key: 'a', reason: 'expired' });
    expect(store.renews).toEqual([]);
  });
});

describe('a composite hold', () => {
  it('is lost when one of its parts is, with the error of that part, and fires its signal', async () => {
    const { clock, store, acquire } = setUp();
    const lock = await acquire(['a', 'b']);
    const told: unknown[] = [];
    lock.onLost((error) => told.push(error));
    const { signal } = lock;
    store.onRenew = (requests) =>
      requests.map(({ key, leaseMs }) => (key === 'b' ? gone(0, true) : { outcome: 'renewed', remainingMs: leaseMs }));
    await clock.advance(1_000);
    expect([lock.held, lock.remainingMs]).toEqual([false, 0]);
    expect(lock.lost).toMatchObject({ reason: 'revoked', key: 'b' });
    expect([signal.reason, told]).toEqual([lock.lost, [lock.lost]]);
    await expect(lock.extend(100)).rejects.toThrow(LockLostError);
    await lock.release();
    expect(store.givenBack.toSorted()).toEqual(['a', 'b']);
  });

  it('stops the renewal of all of its parts when one is lost', async () => {
    const { clock, acquire, store, locker } = setUp();
    await acquire(['a', 'b', 'c']);
    store.listener!.onWakeUp(store.acquires[1]!.request.attempt, { kind: 'revoked' });
    await clock.advance(60_000);
    expect([store.renews.length, locker.live.locks]).toEqual([0, 0]);
  });

  it('reports its loss once, even when all of its parts are lost', async () => {
    const { clock, acquire, store } = setUp();
    store.onRenew = null;
    const lock = await acquire(['a', 'b']);
    let calls = 0;
    lock.onLost(() => (calls += 1));
    await clock.advance(3_000);
    expect([lock.lost?.reason, calls]).toEqual(['expired', 1]);
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
        await expect(lock.downgrade()).rejects.toBeInstanceOf(LockReentryError);
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
    await expect(lock.extend(100)).rejects.toThrow(LockNotHeldError);
    await expect(lock.downgrade()).rejects.toThrow(LockNotHeldError);
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
    expect([store.asked, store.givenBack.toSorted()]).toEqual([
      ['a', 'b'],
      ['a', 'b'],
    ]);
  });
});
