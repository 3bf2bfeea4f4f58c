import { type ResolvedLockOptions } from '../../../../../lib/core/lock.options.js';
import { commandTimeoutMs } from '../../../../../lib/core/timing.js';
import { startLocker } from '../../../../support/core/core-parts.js';
import { settled } from '../../../../support/core/fake-clock.js';
import { gone, granted } from '../../../../support/core/fake-store.js';

const LEASE_MS = 3_000;
/** For how long a lease of 3 s is proven, and when it is renewed. */
const [PROVEN_MS, THIRD_MS] = [2_968, 1_000];

/** A lock whose grant has `remainingMs` left, in a store that never shortens a lease. */
async function hold(remainingMs = LEASE_MS, options: Partial<ResolvedLockOptions> = {}) {
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
    const { clock, store, reporter, lock, locker } = await hold();
    await clock.advance(THIRD_MS - 40);
    expect(store.renews).toHaveLength(0);
    await clock.advance(40);
    const { attempt } = store.acquires[0]!.request;
    const wish = { mode: 'write', owner: undefined, holder: 'host:1\t10000', fire: undefined, hold: lock };
    const timeoutMs = commandTimeoutMs(LEASE_MS);
    const asked = { key: 'k', attempt, fencingToken: 100, ...wish, leaseMs: LEASE_MS, timeoutMs };
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
    const { clock, store } = await hold();
    store.onRenew = null;
    await clock.advance(THIRD_MS + 1_500);
    expect(store.renews).toHaveLength(1);
  });

  it('counts the new lease from before the command was sent', async () => {
    const { clock, store, lock } = await hold();
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
    const { clock, store, lock } = await hold(6_000, { leaseMs: 30_000 });
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
    const { clock, lock } = await hold();
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
    const { clock, store, lock } = await hold(remainingMs);
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

  it('rejects without an answer, and the lock is held until its lease ends', async () => {
    const { store, lock } = await hold();
    store.onRenew = () => [{ outcome: 'unknown', cause: new Error('down') }];
    await expect(lock.extend(60_000)).rejects.toMatchObject({ code: 'LOCK_STORE', key: 'k' });
    expect(lock.held).toBe(true);
  });

  it('rejects with the loss that it finds', async () => {
    const { store, lock } = await hold();
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
