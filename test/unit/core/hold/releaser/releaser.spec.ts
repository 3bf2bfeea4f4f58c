import { LockStoreError } from '../../../../../lib/core/lock.errors.js';
import { type ResolvedLockOptions } from '../../../../../lib/core/lock.options.js';
import { type ReleaseReply } from '../../../../../lib/core/store/lock-store.js';
import { startLocker } from '../../../../support/core/core-parts.js';
import { settled } from '../../../../support/core/fake-clock.js';
import { released } from '../../../../support/core/fake-store.js';
import { outcomeOf } from '../../../../support/waiting/outcome.js';

const NOTHING = { locks: 0, waiting: 0, releasing: 0, timers: 0 };
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

describe('a release, whose result says whether the lock was still held', () => {
  it.each([
    ['released', true, null],
    ['again', true, null],
    ['expired', false, 'expired'],
    ['unknown', false, 'expired'],
    ['revoked', false, 'revoked'],
  ] as const)('that the store answers with %s is %s, and %s is the loss', async (outcome, result, reason) => {
    const { store, lock, locker } = await held();
    store.onRelease = () => replied(outcome);
    expect([await lock.release(), await lock.release()]).toEqual([result, false]);
    expect([lock.lost?.reason ?? null, locker.live]).toEqual([reason, NOTHING]);
    const { attempt } = store.acquires[0]!.request;
    const asked = { key: 'k', attempt, holdAtLeastMs: 0, leaseMs: 3_000, unanswered: false };
    expect(store.releases).toMatchObject([{ request: asked, timeoutMs: 750 }]);
  });

  it('of several keys is true only when each was held', async () => {
    const { store, lock } = await held(['a', 'b']);
    store.onRelease = ({ key }) => (key === 'b' ? replied('expired') : released());
    expect(await lock.release()).toBe(false);
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
