import { LockStoreError } from '../../../../../lib/core/lock.errors.js';
import { outcomeOf } from '../../../../support/waiting/outcome.js';
import { settled } from '../../../../support/core/fake-clock.js';
import { released } from '../../../../support/core/fake-store.js';
import { releasing, startReleaser } from '../../../../support/core/releasing.js';

const LEASE_MS = 600_000;
/** How many may wait, and how many are tried at a time. */
const [MAX, AT_A_TIME] = [10_000, 100];

const down = () => new LockStoreError('down');

/** A releaser of which so many releases had no answer, by key in the order of their numbers. */
async function setUp(count: number, leaseMs = LEASE_MS) {
  const { clock, store, reporter, timers, releaser } = startReleaser();
  const fail = () => {
    throw down();
  };
  store.onRelease = fail;
  const release = (key: string) => {
    const request = { key, attempt: `client.${key}`, holdAtLeastMs: 0, leaseMs };
    return outcomeOf(releasing(releaser, request, clock.now() + leaseMs, 250));
  };
  const outcomes = Array.from({ length: count }, (_, i) => release(`k${i}`));
  await settled();
  const sent = () => store.releases.splice(0).map(({ request }) => request.key);
  sent();
  return { clock, store, reporter, timers, releaser, release, outcomes, sent, fail };
}

describe('the releases of an outage', () => {
  it('wait on one timer, and are tried a bounded number at a time, with growing pauses', async () => {
    const { clock, timers, releaser, sent } = await setUp(1_000);
    expect([releaser.size, timers.size]).toEqual([1_000, 1]);
    const rounds: number[] = [];
    for (let second = 0; second < 60; second += 1) {
      await clock.advance(1_000);
      rounds.push(sent().length);
    }
    expect([releaser.size, timers.size]).toEqual([1_000, 1]);
    // One round for each second in the end, or two where the pauses are short by chance.
    expect(Math.max(...rounds.slice(10))).toBeLessThanOrEqual(2 * AT_A_TIME);
    expect(Math.min(...rounds.slice(10))).toBeGreaterThanOrEqual(AT_A_TIME);
  });

  it('are tried in turn, so that none is starved by others that get no answer', async () => {
    const { clock, sent } = await setUp(250);
    await clock.advance(10_000);
    const tried = sent();
    expect(tried.slice(0, 250)).toEqual(Array.from({ length: 250 }, (_, i) => `k${i}`));
  });

  it('are all confirmed when the store answers again, with a bounded number at a time', async () => {
    const { clock, store, releaser, timers, outcomes, reporter } = await setUp(1_000);
    let [open, most, count] = [0, 0, 0];
    store.release = async () => {
      count += 1;
      most = Math.max(most, (open += 1));
      await settled();
      open -= 1;
      return released();
    };
    await clock.advance(1_000);
    await releaser.idle();
    await settled();
    expect([releaser.size, timers.size, count, most]).toEqual([0, 0, 1_000, AT_A_TIME]);
    expect(outcomes.every(({ value }) => value?.reply?.outcome === 'released')).toBe(true);
    expect(reporter.lines).toEqual([]);
  });

  it('wait for the next round when their node is still away, without delaying the others', async () => {
    const { clock, store, releaser, sent, fail } = await setUp(300);
    store.onRelease = ({ key }) => (key === 'k299' ? released() : fail());
    await clock.advance(10_000);
    expect([releaser.size, sent().filter((key) => key === 'k299').length]).toEqual([299, 1]);
  });

  it('are bounded in number: the oldest end with their leases, and a new release is still sent at once', async () => {
    const { releaser, timers, outcomes, sent, release } = await setUp(MAX + 500);
    expect([releaser.size, timers.size]).toEqual([MAX, 2]);
    expect(outcomes.map(({ value }) => value !== undefined)).toEqual(outcomes.map((_, i) => i < 500));
    release('one more');
    await settled();
    expect([sent(), releaser.size]).toEqual([['one more'], MAX]);
  });

  it('do not flood the log: the first that end with their leases are named, and the rest are counted', async () => {
    const { clock, reporter, releaser, timers } = await setUp(1_000, 5_000);
    await clock.advance(60_000);
    expect(reporter.lines).toHaveLength(11);
    expect(reporter.lines[0]).toMatch(/^warn The lock "k\d+" could not be released and ends with its lease: down$/);
    expect(reporter.lines[10]).toBe(
      'warn Within 10 s, 990 more locks could not be released and end with their leases.',
    );
    expect([releaser.size, timers.size]).toEqual([0, 0]);
  });

  it('all end at the shutdown, with their number in the log', async () => {
    const { reporter, releaser, timers, outcomes } = await setUp(1_000);
    releaser.stop();
    await settled();
    expect([releaser.size, timers.size, outcomes.every(({ value }) => value !== undefined)]).toEqual([0, 0, true]);
    expect(reporter.lines.slice(-1)).toEqual([
      'warn Within 10 s, 990 more locks could not be released and end with their leases.',
    ]);
  });
});
