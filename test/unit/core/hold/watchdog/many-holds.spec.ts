import { RENEWALS_AT_A_TIME } from '../../../../../lib/core/timing.js';
import { settled } from '../../../../support/core/fake-clock.js';
import { gone } from '../../../../support/core/fake-store.js';
import { startWatchdog } from '../../../../support/core/start-watchdog.js';

const MANY = 1_000;
const LEASE_MS = 30_000;

/** A watchdog of many leases of 30 s, granted over ten seconds or at once, and a store that renews them. */
async function startMany({ spreadMs = 10_000 } = {}) {
  const started = startWatchdog();
  const { clock, watched, store, renewing } = started;
  renewing(LEASE_MS);
  const locks = [];
  for (let i = 0; i < MANY; i += 1) {
    locks.push(watched({ key: `k${i}`, attempt: `c.${i}`, leaseMs: LEASE_MS }));
    await clock.advance(spreadMs / MANY);
  }
  store.renews.length = 0;
  return { ...started, locks };
}

describe('the watchdog and a thousand locks', () => {
  it('renews each before a third of its lease is over, with few calls and timers', async () => {
    const { clock, store, timers, locks } = await startMany();
    expect(timers.size).toBeLessThanOrEqual(100);
    await clock.advance(LEASE_MS);
    const renewals = store.renews.reduce((sum, { request }) => sum + request.length, 0);
    // Three or four each; the watchdog that knows no buckets needs a call for each of them.
    expect(renewals).toBeGreaterThanOrEqual(3 * MANY);
    expect(renewals).toBeLessThan(3.2 * MANY);
    expect(store.renews.length).toBeLessThan(270);
    expect(locks.every(({ held, deadline }) => held && deadline - clock.now() > (2 * 29_698) / 3 - 2)).toBe(true);
  });

  it('goes on doing so, without a drift of the buckets', async () => {
    const { clock, store } = await startMany();
    await clock.advance(10 * LEASE_MS);
    store.renews.length = 0;
    await clock.advance(LEASE_MS);
    expect(store.renews.length).toBeLessThan(270);
  });

  it('sends those that are due at the same time in slices, one in each turn', async () => {
    const { clock, store, locks } = await startMany({ spreadMs: 0 });
    clock.jump(10_000);
    const sizes: number[][] = [];
    for (let turn = 0; turn < 5; turn += 1) {
      clock.turn();
      await settled();
      sizes.push(store.renews.splice(0).map(({ request }) => request.length));
    }
    const last = MANY - 3 * RENEWALS_AT_A_TIME;
    expect(sizes).toEqual([[RENEWALS_AT_A_TIME], [RENEWALS_AT_A_TIME], [RENEWALS_AT_A_TIME], [last], []]);
    expect(locks.every(({ held }) => held)).toBe(true);
  });

  it('does not renew what is released before its slice', async () => {
    const { clock, store, watchdog, timers, locks } = await startMany({ spreadMs: 0 });
    clock.jump(10_000);
    clock.turn();
    await settled();
    expect(store.renews).toHaveLength(1);
    for (const lock of locks) watchdog.unwatch(lock);
    expect([watchdog.size, timers.size]).toEqual([0, 0]);
    await clock.advance(60_000);
    expect(store.renews).toHaveLength(1);
  });

  it('tells every loss in the first turn after a pause', async () => {
    const { clock, store, watchdog, timers, locks } = await startMany();
    const signals = locks.map(({ signal }) => signal);
    clock.jump(60_000);
    clock.turn();
    expect(signals.every(({ aborted }) => aborted)).toBe(true);
    expect([store.renews.length, watchdog.size, timers.size]).toEqual([0, 0, 0]);
  });

  it('tells each loss at its deadline, not before and not later, when nothing is answered', async () => {
    const { clock, store, locks } = await startMany();
    const early: string[] = [];
    const late: string[] = [];
    for (const lock of locks) {
      lock.onLost(() => {
        if (clock.now() < lock.deadline) early.push(lock.key);
        if (clock.now() > lock.deadline + 1) late.push(lock.key);
      });
    }
    store.onRenew = (requests) => requests.map(() => ({ outcome: 'unknown', cause: new Error('down') }));
    await clock.advance(LEASE_MS);
    expect(locks.every(({ lost }) => lost?.reason === 'unreachable')).toBe(true);
    expect([early, late]).toEqual([[], []]);
  });

  it('does not ask more often for all of them than for one, when nothing is answered', async () => {
    const { clock, store } = await startMany({ spreadMs: 0 });
    store.onRenew = (requests) => requests.map(() => ({ outcome: 'unknown', cause: new Error('down') }));
    await clock.advance(LEASE_MS);
    const one = startWatchdog();
    one.store.onRenew = store.onRenew;
    one.watched({ leaseMs: LEASE_MS });
    await one.clock.advance(LEASE_MS);
    const slices = Math.ceil(MANY / RENEWALS_AT_A_TIME);
    expect(store.renews.length).toBeLessThanOrEqual(slices * (one.store.renews.length + 2));
  });

  it('loses only those whose holds are gone', async () => {
    const { clock, store, watchdog, locks } = await startMany();
    store.onRenew = (requests) =>
      requests.map(({ key }) => (key.endsWith('7') ? gone(500) : { outcome: 'renewed', remainingMs: LEASE_MS }));
    await clock.advance(10_000);
    expect(locks.every(({ key, held }) => held !== key.endsWith('7'))).toBe(true);
    expect(watchdog.size).toBe(MANY - MANY / 10);
  });
});
