import { type ResolvedLockOptions } from '../../../../lib/core/lock.options.js';
import { commandTimeoutMs, RENEWALS_AT_A_TIME } from '../../../../lib/core/timing.js';
import { NOTHING, startLocker } from '../../../support/core/core-parts.js';
import { settled } from '../../../support/core/fake-clock.js';
import { type FakeStore, gone, granted } from '../../../support/core/fake-store.js';
import { outcomeOf } from '../../../support/waiting/outcome.js';
import { type RenewReply } from '../../../../lib/core/store/lock-store.js';
import { type Hold } from '../../../../lib/core/hold/hold.js';

const LEASE_MS = 3_000;
const CAUSE = new Error('ECONNREFUSED');
const renewed = (remainingMs = LEASE_MS): RenewReply => ({ outcome: 'renewed', remainingMs });
const UNKNOWN: RenewReply = { outcome: 'unknown', cause: CAUSE };
/** For how long a lease of 3 s is proven, and when it is renewed. */
const [PROVEN_MS, THIRD_MS] = [2_968, 1_000];

/** Answers every renewal with an error from now on. */
const goDown = (store: FakeStore): void => void (store.onRenew = (requests) => requests.map(() => UNKNOWN));

/** A lock whose grant has `remainingMs` left, in a store that never shortens a lease. */
async function holdGranted(remainingMs = LEASE_MS, options: Partial<ResolvedLockOptions> = {}) {
  const started = startLocker();
  const { clock, store, enter } = started;
  const grantedAt = clock.now();
  let endsAt = grantedAt + remainingMs;
  const renewing: typeof store.onRenew = (requests) =>
    requests.map(({ leaseMs }) => {
      endsAt = Math.max(endsAt, clock.now() + leaseMs);
      return { outcome: 'renewed', remainingMs: endsAt - clock.now() };
    });
  store.onAcquire = () => granted(remainingMs, 100);
  store.onRenew = renewing;
  const lock = await enter('k', options);
  return { ...started, lock, grantedAt, renewing };
}

describe('the watchdog, renewing', () => {
  it('renews at a third of the lease, again and again, until the release', async () => {
    const { clock, store, reporter, lock, locker } = await holdGranted();
    await clock.advance(THIRD_MS - 40);
    expect(store.renews).toHaveLength(0);
    await clock.advance(40);
    const { attempt } = store.acquires[0]!.request;
    const wish = { mode: 'write', owner: undefined, holder: 'host:1\t10000', fire: undefined, hold: lock };
    const timeoutMs = commandTimeoutMs(LEASE_MS);
    const asked = { key: 'k', attempt, fencingToken: 100, ...wish, hasNewHolder: false, leaseMs: LEASE_MS, timeoutMs };
    expect(store.renews.map(({ request }) => request)).toEqual([[asked]]);
    await clock.advance(60_000);
    expect([lock.held, reporter.lines]).toEqual([true, []]);
    expect(store.renews.length).toBeGreaterThan(58);
    await lock.release();
    expect(locker.live.timers).toBe(0);
    const { length } = store.renews;
    await clock.advance(60_000);
    expect(store.renews).toHaveLength(length);
  });

  it('does not renew again while an answer is pending', async () => {
    const { clock, store } = await holdGranted();
    store.onRenew = null;
    await clock.advance(THIRD_MS + 1_500);
    expect(store.renews).toHaveLength(1);
  });

  it('counts the new lease from before the command was sent', async () => {
    const { clock, store, lock } = await holdGranted();
    store.onRenew = null;
    clock.jump(THIRD_MS);
    clock.turn();
    await clock.advance(700);
    store.renews[0]!.reply([{ outcome: 'renewed', remainingMs: LEASE_MS }]);
    await settled();
    expect(lock.remainingMs).toBe(PROVEN_MS - 700);
  });

  it.each([
    ['a lease that both clocks prove', 3_000, 0, 900, 1_000],
    ['what is left of a lease on its grant', 600, 0, 180, 200],
    ['what the wall clock proves', 3_000, 2_400, 160, 200],
    ['a longer lease than was asked for', 9_000, 0, 2_800, 3_000],
  ])('renews at a third of %s', async (_what, remainingMs, sleptMs, before, after) => {
    const started = startLocker();
    const { clock, store } = started;
    store.onAcquire = () => {
      clock.wallOffsetMs += sleptMs;
      return granted(remainingMs, 100);
    };
    await started.enter('k');
    await clock.advance(before);
    expect(store.renews).toEqual([]);
    await clock.advance(after - before);
    expect(store.renews.map(({ request }) => request[0]!.leaseMs)).toEqual([LEASE_MS]);
  });

  it('leaves time for another try before a short proof of a long lease ends', async () => {
    const { clock, store, lock } = await holdGranted(6_000, { leaseMs: 30_000 });
    store.onRenew = null;
    await clock.advance(2_000);
    const { timeoutMs } = store.renews[0]!.request[0]!;
    expect(2 * timeoutMs).toBeLessThanOrEqual(lock.remainingMs);
    expect(timeoutMs).toBeGreaterThan(1_500);
  });

  it('renews at once when messages were missed, also while its grant was under way', async () => {
    const { clock, store, locker, enter } = startLocker();
    await enter('before');
    await enter('short', { renew: false });
    store.onAcquire = null;
    const entering = enter('k');
    clock.jump(10);
    locker.onMessagesMissed();
    store.acquires.at(-1)!.reply(granted(LEASE_MS, 100));
    await entering;
    await clock.advance(1);
    expect(store.renews.flatMap(({ request }) => request.map(({ key }) => key)).toSorted()).toEqual(['before', 'k']);
  });

  it('makes held false after a jump of the wall clock until a renewal confirms the lock', async () => {
    const { clock, lock } = await holdGranted();
    clock.wallOffsetMs += 3_600_000;
    expect([lock.held, lock.remainingMs]).toEqual([false, 0]);
    await clock.advance(THIRD_MS);
    expect([lock.held, lock.lost, lock.signal.aborted]).toEqual([true, null, false]);
  });
});

describe('an extension', () => {
  it.each([
    ['of a grant for a short time', 600, 300],
    ['by less than what is left', 600, 1],
    ['by more than the lease', 3_000, 30_000],
  ])('%s is followed by a renewal at a third of what is left', async (_what, remainingMs, leaseMs) => {
    const { clock, store, lock } = await holdGranted(remainingMs);
    clock.jump(50);
    await lock.extend(leaseMs);
    const third = lock.remainingMs / 3;
    await clock.advance(third * 0.95);
    expect(store.renews).toHaveLength(1);
    await clock.advance(third * 0.1);
    expect(store.renews.map(({ request }) => request[0]!.leaseMs)).toEqual([leaseMs, LEASE_MS]);
    await clock.advance(60_000);
    expect(lock.lost).toBeNull();
  });

  it('rejects with the loss that it finds', async () => {
    const { store, lock } = await holdGranted();
    store.onRenew = () => [gone(101)];
    await expect(lock.extend(60_000)).rejects.toMatchObject({ code: 'LOCK_LOST', reason: 'taken' });
    expect(lock.lost).toMatchObject({ reason: 'taken' });
  });

  it.each([0, 0.5, Infinity])(
    'refuses a lease of %p for a lock, a nested one and one of several groups',
    async (ms) => {
      const { store, under } = startLocker();
      store.groups = (keys) => keys.map((key) => [key]);
      const refused = (lock: { extend(leaseMs: number): Promise<void> }) =>
        expect(lock.extend(ms)).rejects.toMatchObject({ code: 'LOCK_CONFIGURATION' });
      await under(['a', 'b'], (joined) => refused(joined).then(() => under('a', refused)));
      await under('k', refused);
      expect(store.renews).toEqual([]);
    },
  );
});

describe('a downgrade', () => {
  it('rejects when it is not confirmed, but becomes a read lock at once, and can be repeated', async () => {
    const { store, lock, renewing } = await holdGranted();
    store.onRenew = null;
    const done = lock.downgrade();
    expect(lock.mode).toBe('read');
    store.renews[0]!.reply([UNKNOWN]);
    await expect(done).rejects.toMatchObject({ code: 'LOCK_STORE', cause: CAUSE, key: 'k' });
    store.onRenew = renewing;
    await lock.downgrade();
    expect([store.renews.length, lock.mode, lock.held]).toEqual([2, 'read', true]);
  });

  it.each<[string, object, (lock: Hold) => void]>([
    ['a loss', { code: 'LOCK_LOST', reason: 'shutdown' }, (lock) => lock.lose('shutdown')],
    ['a release', { code: 'LOCK_NOT_HELD' }, (lock) => void lock.release()],
  ])('rejects with %s that comes while it has no answer, like an extension', async (_what, error, end) => {
    const { store, lock } = await holdGranted();
    store.onRenew = null;
    const outcomes = [lock.extend(60_000), lock.downgrade()].map((one) => outcomeOf(one));
    end(lock);
    for (const renew of store.renews) renew.reply([UNKNOWN]);
    await settled();
    expect(outcomes).toMatchObject([{ error }, { error }]);
  });
});

describe('a lock that is not renewed', () => {
  it('is not renewed either after an extension that had no answer', async () => {
    const { clock, store, lock, reply } = await hold('k', { renew: false });
    const extension = outcomeOf(lock.extend(60_000));
    await reply(UNKNOWN);
    await clock.advance(1_000);
    expect([extension.error, store.renews.length]).toMatchObject([{ code: 'LOCK_STORE' }, 1]);
  });
});

/** A lock whose renewals the test answers. */
async function hold(keys: string | readonly string[] = 'k', options: Partial<ResolvedLockOptions> = {}) {
  const started = startLocker();
  const { clock, store, enter } = started;
  const renewing = store.onRenew;
  store.onRenew = null;
  const lock = await enter(keys, options);
  /** Answers the last renewal. */
  const reply = async (...replies: RenewReply[]) => {
    store.renews.at(-1)!.reply(replies);
    await settled();
  };
  const down = () => goDown(store);
  const toRenewal = async () => {
    for (let ms = 0; ms < LEASE_MS && store.renews.length === 0; ms += 1) await clock.advance(1);
  };
  return { ...started, lock, renewing, reply, down, toRenewal };
}

describe('the watchdog, when the store does not answer', () => {
  it('retries until the local deadline, and only then the lock is lost: unreachable, with the cause', async () => {
    const { clock, store, lock, locker, down, reporter } = await hold();
    down();
    const { signal } = lock;
    await clock.advance(PROVEN_MS - 1);
    expect([lock.held, signal.aborted]).toEqual([true, false]);
    expect(store.renews.length).toBeGreaterThan(5);
    await clock.advance(2);
    expect(lock.lost).toMatchObject({ reason: 'unreachable', cause: CAUSE });
    expect([signal.reason, locker.live.timers]).toEqual([lock.lost, 0]);
    expect(reporter.lines.filter((line) => line.startsWith('warn'))).toHaveLength(1);
  });

  it('retries sooner towards the end of the lease', async () => {
    const { clock, store } = await hold();
    const times: number[] = [];
    store.onRenew = (requests) => {
      times.push(clock.now());
      return requests.map(() => UNKNOWN);
    };
    await clock.advance(PROVEN_MS);
    const pauses = times.slice(1).map((at, i) => at - times[i]!);
    expect([pauses[0], pauses.at(-1)]).toEqual([148, 20]);
  });

  it('loses the lock at the very end of its lease, if nothing has looked before', async () => {
    const { clock, lock } = await holdGranted();
    clock.jump(PROVEN_MS - 1);
    expect(lock.lost).toBeNull();
    clock.jump(1);
    expect(lock.lost).toMatchObject({ reason: 'expired' });
  });

  it('has held its lock for too long at the very end of `maxHoldMs`, also if the lease ends then', async () => {
    const { clock, enter } = await holdGranted(20, { renew: false });
    const lock = await enter('j', { renew: false, maxHoldMs: 17 });
    await clock.advance(17);
    expect(lock.lost).toMatchObject({ reason: 'max-hold' });
  });

  it('releases a lock that ends before its caller releases it', async () => {
    const { lock } = await holdGranted();
    const forget = jest.fn();
    lock.tracker = { forget };
    lock.endLost();
    expect([lock.isReleased, forget.mock.calls.length]).toEqual([true, 1]);
  });

  it('stops to watch the handle of a lost lock', async () => {
    const { lock } = await holdGranted();
    const forget = jest.fn();
    lock.tracker = { forget };
    lock.lose('taken');
    expect(forget).toHaveBeenCalledTimes(1);
  });

  it('also takes an answer without a cause for none', async () => {
    const { clock, lock, store } = await holdGranted();
    store.onRenew = (all) => all.map(() => ({ outcome: 'unknown', cause: undefined }));
    await clock.advance(LEASE_MS);
    expect(lock.lost).toMatchObject({ reason: 'unreachable', cause: { message: 'no answer' } });
  });

  it.each<[string, () => Promise<RenewReply[]>]>([
    [
      'throws',
      () => {
        throw CAUSE;
      },
    ],
    ['rejects', () => Promise.reject(CAUSE)],
  ])('takes a store that %s for one without an answer', async (_what, renew) => {
    const { clock, store, lock } = await holdGranted();
    store.renew = renew;
    await clock.advance(THIRD_MS);
    expect([lock.held, store.renews.length]).toEqual([true, 0]);
    Reflect.deleteProperty(store, 'renew');
    await clock.advance(2 * LEASE_MS);
    expect([lock.held, store.renews.length > 0]).toEqual([true, true]);
  });

  it('renews as before once it gets an answer again', async () => {
    const { clock, store, lock, renewing, down, reporter } = await hold();
    down();
    await clock.advance(2_000);
    store.onRenew = renewing;
    await clock.advance(200);
    const asked = store.renews.length;
    await clock.advance(10_000);
    expect([lock.held, store.renews.length - asked, reporter.lines.length]).toEqual([true, 10, 1]);
  });

  it('reports expired, not unreachable, when an answer came since', async () => {
    const { clock, lock, toRenewal, reply } = await hold();
    await toRenewal();
    await reply(UNKNOWN);
    await clock.advance(200);
    await reply(renewed());
    clock.jump(60_000);
    clock.turn();
    expect(lock.lost).toMatchObject({ reason: 'expired' });
  });
});

describe('the watchdog, when the lock is lost', () => {
  it('reports max-hold in the first turn after a pause, although the lease has also ended', async () => {
    const { clock, lock } = await hold('k', { maxHoldMs: 2_000 });
    clock.jump(60_000);
    clock.turn();
    expect(lock.lost).toMatchObject({ reason: 'max-hold' });
  });

  it('watches a lock no longer that was held for too long', async () => {
    const { clock, locker, enter, store } = startLocker();
    const lock = await enter('k', { maxHoldMs: 50 });
    await clock.advance(50);
    expect([lock.lost?.reason, locker.live.timers]).toEqual(['max-hold', 0]);
    await clock.advance(10_000);
    expect(store.renews).toEqual([]);
  });

  it('ignores a reply that comes after the release', async () => {
    const { lock, locker, reporter, toRenewal, reply } = await hold();
    await toRenewal();
    await lock.release();
    await reply(gone(500));
    expect([lock.lost, locker.live, reporter.lines]).toEqual([null, NOTHING, []]);
  });
});

describe('the watchdog and a lock of several keys', () => {
  const KEYS = ['a', 'b', 'c'];
  const ofKeys = async () => {
    const started = await hold(KEYS);
    await started.toRenewal();
    return started;
  };

  it('renews every hold in one call, each with its own fencing token, and is proven for the shortest', async () => {
    const { store, lock, reply } = await ofKeys();
    const { attempt } = store.acquires[0]!.request;
    const asked = KEYS.map((key, i) => ({ key, attempt, fencingToken: 100 + i, leaseMs: LEASE_MS, hold: lock }));
    expect(store.renews.map(({ request }) => request)).toMatchObject([asked]);
    await reply(renewed(), renewed(2_500), renewed(2_800));
    expect(lock.remainingMs).toBe(2_500 * 0.99 - 2);
  });

  it.each([0, 1, 2])('renews all again when the renewal of one (%i) had no answer', async (nth) => {
    const { clock, store, lock, reporter, reply } = await ofKeys();
    const before = lock.remainingMs;
    await reply(...KEYS.map((_, i) => (i === nth ? UNKNOWN : renewed())));
    expect([lock.lost, lock.remainingMs, reporter.lines.length]).toEqual([null, before, 1]);
    await clock.advance(200);
    expect(store.renews.map(({ request }) => request.length)).toEqual([3, 3]);
    await reply(renewed(), renewed(), renewed());
    expect(lock.remainingMs).toBeGreaterThan(before);
  });
});

const [MANY, LONG_LEASE_MS] = [1_000, 30_000];

/** Many leases of 30 s, granted over ten seconds or at once, and a store that renews them. */
async function startMany({ spreadMs = 10_000, many = MANY } = {}) {
  const started = startLocker();
  const { clock, enter, store } = started;
  const locks: Hold[] = [];
  for (let i = 0; i < many; i += 1) {
    locks.push(await enter(`k${i}`, { leaseMs: LONG_LEASE_MS }));
    clock.jump(spreadMs / many);
    clock.turn();
  }
  await settled();
  store.renews.length = 0;
  return { ...started, locks, down: () => goDown(store) };
}

describe('the watchdog and a thousand locks', () => {
  it('renews each before a third of its lease is over, with few calls and timers, again and again', async () => {
    const { clock, store, locker, locks } = await startMany();
    expect([locker.live.timers, clock.timers]).toEqual([expect.any(Number), 1]);
    expect(locker.live.timers).toBeLessThanOrEqual(100);
    for (const leases of [1, 5, 1]) {
      store.renews.length = 0;
      await clock.advance(leases * LONG_LEASE_MS);
      const renewals = store.renews.reduce((sum, { request }) => sum + request.length, 0);
      // Three or four each; without shared times, each of them needs a call.
      expect(renewals).toBeGreaterThanOrEqual(3 * leases * MANY);
      expect(renewals).toBeLessThan(3.2 * leases * MANY);
      expect(store.renews.length).toBeLessThan(270 * leases);
    }
    expect(locks.every(({ remainingMs }) => remainingMs > (2 * 29_698) / 3 - 2)).toBe(true);
  });

  it.each([
    ['one in each turn', 4, 100],
    ['and none once all are released', 1, MANY],
  ])('sends those that are due at the same time in slices, %s', async (_what, turns, releasedMeanwhile) => {
    const { clock, store, locker, locks, enter } = await startMany({ spreadMs: 0 });
    clock.jump(10_000);
    const sizes: number[] = [];
    for (let turn = 0; turn < turns; turn += 1) {
      clock.turn();
      await settled();
      sizes.push(...store.renews.splice(0).map(({ request }) => request.length));
      if (turn === 0) await Promise.all(locks.slice(-releasedMeanwhile).map((lock) => lock.release()));
    }
    const slices = [RENEWALS_AT_A_TIME, RENEWALS_AT_A_TIME, RENEWALS_AT_A_TIME, MANY - 3 * RENEWALS_AT_A_TIME - 100];
    expect(sizes).toEqual(slices.slice(0, turns));
    await Promise.all(locks.map((lock) => lock.release()));
    expect(locker.live).toEqual(NOTHING);
    await clock.advance(60_000);
    expect(store.renews).toEqual([]);
    // Nothing is left of them that delays the renewals of the next lock.
    await enter('next', { leaseMs: LONG_LEASE_MS });
    await clock.advance(LONG_LEASE_MS);
    expect(store.renews).toHaveLength(3);
  });

  it('reports every loss in the first turn after a pause', async () => {
    const { clock, store, locker, locks } = await startMany();
    const signals = locks.map(({ signal }) => signal);
    clock.jump(60_000);
    clock.turn();
    expect(signals.every(({ aborted }) => aborted)).toBe(true);
    expect([store.renews.length, locker.live.locks]).toEqual([0, 0]);
  });

  it('reports each loss at its deadline, not before and not later, when nothing is answered', async () => {
    const { clock, locks, down } = await startMany();
    const wrong: string[] = [];
    const from = clock.now();
    for (const lock of locks) {
      const deadline = from + lock.remainingMs;
      lock.onLost(() => Math.abs(clock.now() - deadline) > 1 && wrong.push(lock.key));
    }
    down();
    await clock.advance(LONG_LEASE_MS);
    expect(locks.every(({ lost }) => lost?.reason === 'unreachable')).toBe(true);
    expect(wrong).toEqual([]);
  });

  it('does not ask more often for all of them than for one, when nothing is answered', async () => {
    const calls = [];
    for (const many of [1, MANY]) {
      const { clock, store, down } = await startMany({ spreadMs: 0, many });
      down();
      await clock.advance(LONG_LEASE_MS);
      calls.push(store.renews.length);
    }
    expect(calls[1]).toBeLessThanOrEqual(Math.ceil(MANY / RENEWALS_AT_A_TIME) * (calls[0]! + 2));
  });

  it('reports the losses of the others even if the logger throws at one of them', async () => {
    const { clock, reporter, locks } = await startMany({ spreadMs: 0, many: 3 });
    const signals = locks.map(({ signal }) => signal);
    reporter.error = () => {
      reporter.error = () => undefined;
      throw new Error('a logger');
    };
    clock.jump(60_000);
    expect(() => clock.turn()).toThrow('a logger');
    clock.turn();
    expect(signals.every(({ aborted }) => aborted)).toBe(true);
  });

  it('keeps its locks while others come and go at random', async () => {
    const { clock, enter, locker, reporter } = startLocker();
    let seed = 7;
    const random = (max: number): number => (seed = (seed * 48_271) % 2_147_483_647) % max;
    const locks = new Map<string, Hold>();
    for (let change = 0; change < 1_000; change += 1) {
      const key = `${random(50)}`;
      const held = locks.get(key);
      if (held) await held.release();
      if (!held) locks.set(key, await enter(key, { leaseMs: 200 + random(3_000) }));
      else locks.delete(key);
      await clock.advance(random(100));
      expect([...locks.values()].filter((lock) => !lock.held)).toEqual([]);
      expect(locker.live.locks).toBe(locks.size);
    }
    expect(reporter.lines).toEqual([]);
  });
});
