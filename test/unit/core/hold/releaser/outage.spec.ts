import { LockStoreError } from '../../../../../lib/core/lock.errors.js';
import { startLocker } from '../../../../support/core/core-parts.js';
import { settled } from '../../../../support/core/fake-clock.js';
import { released } from '../../../../support/core/fake-store.js';
import { outcomeOf } from '../../../../support/waiting/outcome.js';

const LEASE_MS = 600_000;
/** How many may wait, how many are tried at a time, and how long a caller waits. */
const [MAX, AT_A_TIME, PATIENCE_MS] = [10_000, 100, 1_000];
const COUNTED = 'warn Within 10 s, 990 more locks could not be released and end with their leases.';

/** Locks of which no release had an answer so far. */
async function setUp(count: number, leaseMs = LEASE_MS) {
  const started = startLocker();
  const { store, enter } = started;
  const fail = () => {
    throw new LockStoreError('down');
  };
  store.onRelease = fail;
  const release = async (key: string) => outcomeOf((await enter(key, { leaseMs, renew: false })).release());
  const outcomes = await Promise.all(Array.from({ length: count }, (_, i) => release(`k${i}`)));
  await settled();
  /** The keys of the releases since the last call. */
  const sent = () => store.releases.splice(0).map(({ request }) => request.key);
  sent();
  return { ...started, release, outcomes, sent, fail };
}

describe('the releases of an outage', () => {
  it('wait on one timer, and are tried in turn, a bounded number at a time, with growing pauses', async () => {
    const { clock, locker, sent } = await setUp(1_000);
    await clock.advance(PATIENCE_MS);
    const first = sent();
    expect(locker.live).toMatchObject({ releasing: 1_000, timers: 1 });
    const rounds: string[][] = [];
    for (let second = 0; second < 60; second += 1) {
      await clock.advance(1_000);
      rounds.push(sent());
    }
    expect([...first, ...rounds.flat()].slice(0, 1_000)).toEqual(Array.from({ length: 1_000 }, (_, i) => `k${i}`));
    // One round for each second in the end, or two where the pauses are short by chance.
    const sizes = rounds.slice(10).map(({ length }) => length);
    expect(Math.max(...sizes)).toBeLessThanOrEqual(2 * AT_A_TIME);
    expect(Math.min(...sizes)).toBeGreaterThanOrEqual(AT_A_TIME);
    expect(locker.live).toMatchObject({ releasing: 1_000, timers: 1 });
  });

  it('are all confirmed when the store answers again, with a bounded number at a time', async () => {
    const { clock, store, locker, outcomes, reporter } = await setUp(1_000);
    let [open, most, count] = [0, 0, 0];
    store.release = async () => {
      count += 1;
      most = Math.max(most, (open += 1));
      await settled();
      open -= 1;
      return released();
    };
    await clock.advance(PATIENCE_MS);
    for (let turns = 0; turns < 50 && locker.live.releasing > 0; turns += 1) await settled();
    expect([locker.live, count, most]).toEqual([
      expect.objectContaining({ releasing: 0, timers: 0 }),
      1_000,
      AT_A_TIME,
    ]);
    expect([outcomes.every(({ value }) => value === true), reporter.lines]).toEqual([true, []]);
  });

  it('wait for the next round when their node is still away, without delaying the others', async () => {
    const { clock, store, locker, sent, fail } = await setUp(300);
    store.onRelease = ({ key }) => (key === 'k299' ? released() : fail());
    await clock.advance(10_000);
    expect([locker.live.releasing, sent().filter((key) => key === 'k299').length]).toEqual([299, 1]);
  });

  it('are bounded in number: the oldest end with their leases, and a new release is still sent at once', async () => {
    const { clock, locker, outcomes, sent, release } = await setUp(MAX + 500);
    expect(outcomes.map(({ value }) => value !== undefined)).toEqual(outcomes.map((_, i) => i < 500));
    await release('one more');
    await settled();
    expect([sent(), locker.live.releasing]).toEqual([['one more'], MAX]);
    await clock.advance(PATIENCE_MS);
    // One for the tries, and one for the number of the lines.
    expect(locker.live.timers).toBe(2);
  });

  it('do not flood the log: the first that end with their leases are named, and the rest are counted', async () => {
    const { clock, reporter, locker } = await setUp(1_000, 5_000);
    await clock.advance(60_000);
    expect([reporter.lines.length, reporter.lines[10]]).toEqual([11, COUNTED]);
    expect(reporter.lines[0]).toMatch(/^warn The lock "k\d+" could not be released and ends with its lease: down$/);
    expect(locker.live).toEqual({ locks: 0, waiting: 0, releasing: 0, timers: 0 });
  });

  it('are tried at once by the shutdown, and all end with it, with their number in the log', async () => {
    const { clock, reporter, locker, outcomes, sent } = await setUp(1_000);
    const closing = locker.close(0);
    await settled();
    expect(sent()).toHaveLength(AT_A_TIME);
    await clock.advance(250);
    await closing;
    expect(outcomes.every(({ value }) => value !== undefined)).toBe(true);
    expect(locker.live).toEqual({ locks: 0, waiting: 0, releasing: 0, timers: 0 });
    expect(reporter.lines.slice(-1)).toEqual([COUNTED]);
  });
});
