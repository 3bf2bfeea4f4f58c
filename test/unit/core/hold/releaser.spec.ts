import { type LockLostReason, LockStoreError } from '../../../../lib/core/lock.errors.js';
import { type ResolvedLockOptions } from '../../../../lib/core/lock.options.js';
import { type ReleaseReply } from '../../../../lib/core/store/lock-store.js';
import { NOTHING, startLocker } from '../../../support/core/core-parts.js';
import { settled } from '../../../support/core/fake-clock.js';
import { released } from '../../../support/core/fake-store.js';
import { outcomeOf } from '../../../support/waiting/outcome.js';

const down = () => new LockStoreError('down');
const replied = (outcome: ReleaseReply['outcome']): ReleaseReply => ({ outcome, holds: 0, lastToken: 100 });

/** A lock whose releases the test answers. */
async function held(keys: string | string[] = 'k', options: Partial<ResolvedLockOptions> = {}) {
  const started = startLocker();
  started.store.onRelease = null;
  const lock = await started.enter(keys, options);
  const fail = () => {
    throw down();
  };
  return { ...started, lock, fail };
}

describe('a release, which returns whether the lock was still held', () => {
  it.each([
    ['released', true, null],
    ['again', true, null],
    ['expired', false, 'expired'],
    ['unknown', false, 'expired'],
    ['revoked', false, 'revoked'],
    ['lost', false, 'expired'],
  ] as const)('that the store answers with %s is %s, and %s is the loss', async (outcome, result, reason) => {
    const { store, lock, locker } = await held();
    store.onRelease = () => replied(outcome);
    expect([await lock.release(), await lock.release()]).toEqual([result, false]);
    expect([lock.lost?.reason ?? null, locker.live]).toEqual([reason, NOTHING]);
    const { attempt } = store.acquires[0]!.request;
    const asked = { key: 'k', attempt, holdAtLeastMs: 0, leaseMs: 3_000, unanswered: false };
    expect(store.releases).toMatchObject([{ request: asked, timeoutMs: 750 }]);
  });

  it.each([[true, 0], [false, 60_000]])('without an answer in time is %s when the machine slept for %i', async (result, sleptMs) => {
    const { clock, store, lock, fail } = await held();
    store.onRelease = fail;
    clock.wallOffsetMs += sleptMs;
    const releasing = outcomeOf(lock.release());
    await clock.advance(999);
    expect(releasing).toEqual({});
    await clock.advance(1);
    expect(releasing.value).toBe(result);
  }); // prettier-ignore

  it('finds no loss after a try without an answer, which may have released the lock', async () => {
    const { clock, store, lock } = await held();
    const releasing = outcomeOf(lock.release());
    store.releases[0]!.fail(down());
    await clock.advance(100);
    store.releases[1]!.reply(replied('unknown'));
    await settled();
    expect([releasing.value, lock.lost]).toEqual([true, null]);
  });

  it.each([
    [true, null],
    [false, 'expired'],
  ])('states that it is a repetition only if an earlier try may have been executed (%s)', async (wasSent, reason) => {
    const { clock, store, lock } = await held();
    const releasing = outcomeOf(lock.release());
    store.releases[0]!.fail(new LockStoreError('down', { wasSent }));
    await clock.advance(100);
    expect(store.releases.map(({ request }) => request.isRepeated ?? false)).toEqual([false, wasSent]);
    store.releases[1]!.reply(replied('unknown'));
    await settled();
    expect([releasing.value, lock.lost?.reason ?? null]).toEqual([reason === null, reason]);
  });

  it.each<[string, ReleaseReply, LockLostReason]>([
    ['that try had found no trace', replied('lost'), 'expired'],
    ['an operator had ended it', replied('revoked'), 'revoked'],
  ])('finds, after a try without an answer, that %s', async (_what, reply, reason) => {
    const { clock, store, lock } = await held();
    const releasing = outcomeOf(lock.release());
    store.releases[0]!.fail(down());
    await clock.advance(100);
    store.releases[1]!.reply(reply);
    await settled();
    expect([releasing.value, lock.lost?.reason]).toEqual([false, reason]);
  });
});

describe('a release without an answer', () => {
  it('is tried again until it is confirmed, with growing pauses', async () => {
    const { clock, store, lock, locker, reporter } = await held('k', { leaseMs: 60_000 });
    void lock.release();
    const pauses: number[] = [];
    for (let i = 0; i < 6; i += 1) {
      store.releases[i]!.fail(down());
      const failedAt = clock.now();
      for (let ms = 0; ms < 1_100 && store.releases.length === i + 1; ms += 1) await clock.advance(1);
      pauses.push(clock.now() - failedAt);
    }
    for (const [i, pause] of pauses.entries()) {
      const most = Math.min(50 * 2 ** i, 1_000);
      expect([pause >= most / 2, pause <= most + 1]).toEqual([true, true]);
    }
    store.releases[6]!.reply(released());
    await settled();
    expect([locker.live, reporter.lines]).toEqual([NOTHING, []]);
  });

  it('is tried until the lease is over, and reported once', async () => {
    const { clock, store, lock, reporter, fail } = await held();
    store.onRelease = fail;
    void lock.release();
    await clock.advance(4_000);
    const last = 'warn The lock "k" could not be released and ends with its lease: down';
    expect([store.releases.length > 5, reporter.lines]).toEqual([true, [last]]);
    const { length } = store.releases;
    await clock.advance(60_000);
    expect(store.releases).toHaveLength(length);
  });

  it('is tried until an extension is over that had no answer: the store may have carried it out', async () => {
    const { clock, store, lock, locker, fail } = await held('k', { leaseMs: 1_000 });
    store.onRenew = (requests) => requests.map(() => ({ outcome: 'unknown', cause: new Error('no answer') }));
    await expect(lock.extend(10_000)).rejects.toThrow('could not be extended');
    store.onRenew = null;
    await clock.advance(1_000);
    expect(lock.lost?.reason).toBe('unreachable');
    store.onRelease = fail;
    expect(await lock.release()).toBe(false);
    expect(store.releases[0]!.request.leaseMs).toBeGreaterThan(8_900);
    await clock.advance(5_000);
    store.onRelease = () => released();
    const { length } = store.releases;
    await clock.advance(2_000);
    expect([store.releases.length, locker.live.releasing]).toEqual([length + 1, 0]);
  });

  it('is sent once even when the lease has ended already', async () => {
    const { clock, store, lock } = await held('k', { renew: false });
    await clock.advance(5_000);
    expect(lock.lost?.reason).toBe('expired');
    store.onRelease = () => released();
    await lock.release();
    expect(store.releases).toHaveLength(1);
  });
});

describe('a shutdown', () => {
  it('waits for the releases that are under way, also for those that come meanwhile', async () => {
    const { store, enter, lock, locker } = await held();
    const other = await enter('other');
    void lock.release();
    const closing = outcomeOf(locker.close(5_000));
    void other.release();
    store.releases[0]!.reply(released());
    await settled();
    expect(closing).not.toHaveProperty('value');
    store.releases[1]!.reply(released());
    await settled();
    expect([closing, locker.live]).toEqual([{ value: undefined }, NOTHING]);
  });

  it('reports those that fail after it, and leaves no timer', async () => {
    const { clock, store, enter, lock, locker, reporter } = await held('k0');
    void lock.release();
    for (let i = 1; i < 12; i += 1) void (await enter(`k${i}`)).release();
    const closing = locker.close(0);
    await clock.advance(250);
    await closing;
    for (const release of store.releases) release.fail(down());
    await clock.advance(1_000);
    const last = 'warn Within 10 s, 2 more locks could not be released and end with their leases.';
    expect([locker.live, reporter.lines.length, reporter.lines.at(-1)]).toEqual([NOTHING, 11, last]);
  });
});

const LEASE_MS = 600_000;
/** How many may wait, how many are tried at a time, and how long a caller waits. */
const [MAX, AT_A_TIME, PATIENCE_MS] = [10_000, 100, 1_000];
const COUNTED = 'warn Within 10 s, 990 more locks could not be released and end with their leases.';

/** Locks whose releases had no answer so far. */
async function startOutage(count: number, leaseMs = LEASE_MS) {
  const started = startLocker();
  const { store, enter } = started;
  const fail = () => {
    throw down();
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
    const { clock, locker, sent } = await startOutage(1_000);
    await clock.advance(PATIENCE_MS);
    const first = sent();
    expect(locker.live).toMatchObject({ releasing: 1_000, timers: 1 });
    const rounds: string[][] = [];
    for (let second = 0; second < 60; second += 1) {
      await clock.advance(1_000);
      rounds.push(sent());
    }
    expect([...first, ...rounds.flat()].slice(0, 1_000)).toEqual(Array.from({ length: 1_000 }, (_, i) => `k${i}`));
    // One round for each second in the end, or two where the random pauses are short.
    const sizes = rounds.slice(10).map(({ length }) => length);
    expect(Math.max(...sizes)).toBeLessThanOrEqual(2 * AT_A_TIME);
    expect(Math.min(...sizes)).toBeGreaterThanOrEqual(AT_A_TIME);
    expect(locker.live).toMatchObject({ releasing: 1_000, timers: 1 });
  });

  it('are all confirmed when the store answers again, with a bounded number at a time', async () => {
    const { clock, store, locker, outcomes, reporter } = await startOutage(1_000);
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
    const { clock, store, locker, sent, fail } = await startOutage(300);
    store.onRelease = ({ key }) => (key === 'k299' ? released() : fail());
    await clock.advance(10_000);
    expect([locker.live.releasing, sent().filter((key) => key === 'k299').length]).toEqual([299, 1]);
  });

  it('are bounded in number: the oldest end with their leases, and a new release is still sent at once', async () => {
    const { clock, locker, outcomes, sent, release } = await startOutage(MAX + 500);
    expect(outcomes.map(({ value }) => value !== undefined)).toEqual(outcomes.map((_, i) => i < 500));
    await release('one more');
    await settled();
    expect([sent(), locker.live.releasing]).toEqual([['one more'], MAX]);
    await clock.advance(PATIENCE_MS);
    // One for the tries, and one for the number of the lines.
    expect(locker.live.timers).toBe(2);
  });

  it('do not flood the log: the first that end with their leases are named, and the rest are counted', async () => {
    const { clock, reporter, locker } = await startOutage(1_000, 5_000);
    await clock.advance(60_000);
    expect([reporter.lines.length, reporter.lines[10]]).toEqual([11, COUNTED]);
    expect(reporter.lines[0]).toMatch(/^warn The lock "k\d+" could not be released and ends with its lease: down$/);
    expect(locker.live).toEqual(NOTHING);
  });

  it('are tried at once by the shutdown, and all end with it, with their number in the log', async () => {
    const { clock, reporter, locker, outcomes, sent } = await startOutage(1_000);
    const closing = locker.close(0);
    await settled();
    expect(sent()).toHaveLength(AT_A_TIME);
    await clock.advance(250);
    await closing;
    expect(outcomes.every(({ value }) => value !== undefined)).toBe(true);
    expect(locker.live).toEqual(NOTHING);
    expect(reporter.lines.slice(-1)).toEqual([COUNTED]);
  });
});
