import { RENEWALS_AT_A_TIME } from '../../../../../lib/core/timing.js';
import { type Hold } from '../../../../../lib/core/hold/hold.js';
import { startLocker } from '../../../../support/core/core-parts.js';
import { settled } from '../../../../support/core/fake-clock.js';

const [MANY, LEASE_MS] = [1_000, 30_000];

/** Many leases of 30 s, granted over ten seconds or at once, and a store that renews them. */
async function startMany({ spreadMs = 10_000, many = MANY } = {}) {
  const started = startLocker();
  const { clock, enter, store } = started;
  const locks: Hold[] = [];
  for (let i = 0; i < many; i += 1) {
    locks.push(await enter(`k${i}`, { leaseMs: LEASE_MS }));
    clock.jump(spreadMs / many);
    clock.turn();
  }
  await settled();
  store.renews.length = 0;
  const down = () =>
    void (store.onRenew = (requests) => requests.map(() => ({ outcome: 'unknown', cause: new Error('down') })));
  return { ...started, locks, down };
}

describe('the watchdog and a thousand locks', () => {
  it('renews each before a third of its lease is over, with few calls and timers, again and again', async () => {
    const { clock, store, locker, locks } = await startMany();
    expect([locker.live.timers, clock.timers]).toEqual([expect.any(Number), 1]);
    expect(locker.live.timers).toBeLessThanOrEqual(100);
    for (const leases of [1, 5, 1]) {
      store.renews.length = 0;
      await clock.advance(leases * LEASE_MS);
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
    const { clock, store, locker, locks } = await startMany({ spreadMs: 0 });
    clock.jump(10_000);
    const sizes: number[] = [];
    for (let turn = 0; turn < turns; turn += 1) {
      clock.turn();
      await settled();
      sizes.push(...store.renews.splice(0).map(({ request }) => request.length));
      if (turn === 0) await Promise.all(locks.slice(0, releasedMeanwhile).map((lock) => lock.release()));
    }
    const slices = [RENEWALS_AT_A_TIME, RENEWALS_AT_A_TIME, RENEWALS_AT_A_TIME, MANY - 3 * RENEWALS_AT_A_TIME - 100];
    expect(sizes).toEqual(slices.slice(0, turns));
    await Promise.all(locks.map((lock) => lock.release()));
    expect(locker.live).toEqual({ locks: 0, waiting: 0, releasing: 0, timers: 0 });
    await clock.advance(60_000);
    expect(store.renews).toEqual([]);
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
    await clock.advance(LEASE_MS);
    expect(locks.every(({ lost }) => lost?.reason === 'unreachable')).toBe(true);
    expect(wrong).toEqual([]);
  });

  it('does not ask more often for all of them than for one, when nothing is answered', async () => {
    const calls = [];
    for (const many of [1, MANY]) {
      const { clock, store, down } = await startMany({ spreadMs: 0, many });
      down();
      await clock.advance(LEASE_MS);
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
