import { type ResolvedLockOptions } from '../../../../../lib/core/lock.options.js';
import { type RenewReply } from '../../../../../lib/core/store/lock-store.js';
import { startLocker } from '../../../../support/core/core-parts.js';
import { settled } from '../../../../support/core/fake-clock.js';
import { gone } from '../../../../support/core/fake-store.js';

const LEASE_MS = 3_000;
const PROVEN_MS = 2_968;
const NOTHING = { locks: 0, waiting: 0, releasing: 0, timers: 0 };
const CAUSE = new Error('ECONNREFUSED');
const renewed = (remainingMs = LEASE_MS): RenewReply => ({ outcome: 'renewed', remainingMs });
const UNKNOWN: RenewReply = { outcome: 'unknown', cause: CAUSE };

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
  const down = () => void (store.onRenew = (requests) => requests.map(() => UNKNOWN));
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
  it('reports max-hold in the first turn after a pause, although the lease has ended, too', async () => {
    const { clock, lock } = await hold('k', { maxHoldMs: 2_000 });
    clock.jump(60_000);
    clock.turn();
    expect(lock.lost).toMatchObject({ reason: 'max-hold' });
  });

  it('ignores a reply that comes after the release', async () => {
    const { lock, locker, reporter, toRenewal, reply } = await hold();
    await toRenewal();
    await lock.release();
    await reply(gone(500));
    expect([lock.lost, locker.live, reporter.lines]).toEqual([null, NOTHING, []]);
  });

  it('does not revive a lost lock when a reply comes late', async () => {
    const { clock, lock, locker, toRenewal, reply } = await hold();
    await toRenewal();
    await clock.advance(LEASE_MS);
    await reply(renewed(60_000));
    expect([lock.held, locker.live]).toEqual([false, NOTHING]);
    expect(lock.lost).toMatchObject({ code: 'LOCK_LOST' });
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
