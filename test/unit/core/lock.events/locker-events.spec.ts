import { type LockEventName } from '../../../../lib/core/lock.events.js';
import { LockStoreError } from '../../../../lib/core/lock.errors.js';
import { EVENT_NAMES } from '../../../support/apps/event-names.js';
import { lockOptions, startLocker } from '../../../support/core/core-parts.js';
import { settled } from '../../../support/core/fake-clock.js';
import { busy, granted } from '../../../support/core/fake-store.js';
import { outcomeOf } from '../../../support/waiting/outcome.js';

const LABEL = { where: 'Orders.charge', template: 'order:<0>' };
const LOCK = { key: 'k', keys: ['k'], mode: 'write', ...LABEL };

/** A locker, and the events that it tells, with their names. */
function setUp() {
  const started = startLocker();
  const { store, locker } = started;
  const seen: [LockEventName, unknown][] = [];
  for (const name of EVENT_NAMES) locker.events.on(name, (event) => void seen.push([name, event]));
  const acquire = (options = {}) => locker.acquire(locker.request(['k'], lockOptions(options), LABEL));
  const held = () => ({ ...LOCK, attempt: store.acquires[0]!.request.attempt, fencingToken: 100 });
  return { ...started, seen, acquire, held };
}

describe('the events of a locker', () => {
  it('report the grant and the release, with the time waited, the time held and the server time', async () => {
    const { clock, store, seen, acquire, held } = setUp();
    store.onAcquire = null;
    const acquiring = acquire();
    await clock.advance(40);
    store.acquires[0]!.reply({ outcome: 'granted', fencingTokens: [100], remainingMs: 3_000, serverTimeMs: 77 });
    const lock = await acquiring;
    await clock.advance(60);
    store.onRelease = () => ({ outcome: 'released', holds: 2, lastToken: 100 });
    await lock.release();
    expect(seen).toEqual([
      ['acquired', { ...held(), waitedMs: 40, waited: false, local: false, serverTimeMs: 77 }],
      ['released', { ...held(), heldMs: 100, holds: 2 }],
    ]);
  });

  it('report once that a call waits, with the holder and the number ahead, and then its grant or its time-out', async () => {
    const { clock, store, seen, acquire } = setUp();
    store.onAcquire = () => busy({ ahead: 2, holder: 'host:9' });
    const acquiring = acquire();
    await clock.advance(2_500);
    store.onAcquire = () => granted(3_000, 100);
    store.listener!.onListening();
    await (await acquiring).release();
    const waited = { waited: true, waitedMs: 2_500 };
    expect(seen.splice(0)).toMatchObject([
      ['waiting', { ahead: 2 }],
      ['acquired', waited],
      ['released', {}],
    ]);
    store.onAcquire = () => busy({ ahead: 2, holder: 'host:9' });
    const outcome = outcomeOf(acquire({ waitMs: 2_500 }));
    await clock.advance(2_500);
    expect(outcome.error).toMatchObject({ code: 'LOCK_WAIT_TIMEOUT' });
    expect(seen).toEqual([
      ['waiting', { ...LOCK, ahead: 2, holder: 'host:9' }],
      ['timedOut', { ...LOCK, waitedMs: 2_500, holder: 'host:9' }],
      ['acquireFailed', { ...LOCK, waitedMs: 2_500, waited: true, reason: 'timeout', error: outcome.error }],
    ]);
  });

  it('report why an acquisition failed, even one that does not wait', async () => {
    const { clock, store, seen, acquire, locker } = setUp();
    const failed: unknown[] = [];
    const fail = async (options = {}) => {
      const outcome = outcomeOf(acquire(options));
      await clock.advance(1_000);
      failed.push(outcome.error);
    };
    store.onAcquire = () => busy();
    await fail({ waitMs: 0 });
    store.onAcquire = () => ({ outcome: 'refused', reason: 'claimed' });
    await fail();
    store.onAcquire = null;
    await fail({ waitMs: 1_000 });
    const signal = AbortSignal.abort(new Error('enough'));
    await fail({ signal });
    await locker.close(0);
    await fail();
    const [reasons, waits] = [
      ['busy', 'claimed', 'error', 'aborted', 'shutdown'],
      [0, 0, 1_000, 0, 0],
    ];
    const events = reasons.map((reason, i) => ({
      ...LOCK,
      waitedMs: waits[i],
      waited: false,
      reason,
      error: failed[i],
    }));
    expect(seen).toEqual(events.map((event) => ['acquireFailed', event]));
    expect(failed[2]).toBeInstanceOf(LockStoreError);
  });

  it('report `aborted` only when the call rejects with the reason of its own signal', async () => {
    const { store, seen, acquire } = setUp();
    const abort = new AbortController();
    store.onAcquire = () => {
      abort.abort(new Error('too late'));
      return { outcome: 'refused', reason: 'upgrade' };
    };
    await expect(acquire({ signal: abort.signal })).rejects.toThrow('too late');
    expect(seen).toMatchObject([['acquireFailed', { reason: 'aborted', error: abort.signal.reason as unknown }]]);
  });

  it.each([
    ['once, with its reason and error, and no release after it', 3_000, 'expired'],
    ['that only the release finds', 0, 'taken'],
  ])('report a loss %s', async (_what, heldMs, reason) => {
    const { clock, store, seen, acquire, held } = setUp();
    const lock = await acquire({ renew: false });
    await clock.advance(heldMs);
    store.onRelease = () => ({ outcome: 'expired', holds: 0, lastToken: 101 });
    await lock.release();
    expect(seen.map(([name]) => name)).toEqual(['acquired', 'lost']);
    expect(seen[1]![1]).toEqual({ ...held(), heldMs: expect.any(Number), reason, error: lock.lost });
  });

  it('report each renewal, and each one without an answer', async () => {
    const { clock, store, seen, acquire, held } = setUp();
    const [cause, renewing] = [new Error('down'), store.onRenew];
    store.onRenew = (requests) => requests.map(() => ({ outcome: 'unknown', cause }));
    await acquire();
    await clock.advance(1_000);
    store.onRenew = renewing;
    await clock.advance(200);
    expect(seen.slice(1)).toEqual([
      ['renewFailed', { ...held(), cause }],
      ['renewed', { ...held(), remainingMs: 3_000 }],
    ]);
  });

  it('report an unconfirmed release without a number of holds', async () => {
    const { clock, store, seen, acquire } = setUp();
    const lock = await acquire({ renew: false });
    store.onRelease = () => {
      throw new Error('down');
    };
    void lock.release();
    await clock.advance(8_000);
    expect(seen.at(-1)).toEqual(['released', expect.objectContaining({ holds: undefined })]);
  });

  it('report a nested call as reentered, with the time waited for its sibling', async () => {
    const { clock, seen, under } = setUp();
    await under('k', async () => {
      const first = under('k', () => clock.advance(300));
      await Promise.all([first, under('k', () => undefined)]);
    });
    const nested = { key: 'k', keys: ['k'], mode: 'write', where: '', template: undefined };
    expect(seen.map(([name]) => name)).toEqual(['acquired', 'reentered', 'reentered', 'released']);
    expect([seen[1]![1], seen[2]![1]]).toEqual([
      { ...nested, waitedMs: 0 },
      { ...nested, waitedMs: 300 },
    ]);
  });

  it('name all keys of a lock, and each group of a composite hold', async () => {
    const { store, locker, seen } = setUp();
    await locker.acquire(locker.request(['b', 'a'], lockOptions()));
    store.groups = (keys) => keys.map((key) => [key]);
    await locker.acquire(locker.request(['d', 'c'], lockOptions()));
    expect(seen.map(([, event]) => (event as { key: string }).key)).toEqual(['b, a', 'd', 'c']);
  });

  it('do not affect the lock when a listener throws', async () => {
    const { store, reporter, locker, acquire } = setUp();
    for (const name of EVENT_NAMES) {
      locker.events.on(name, () => {
        throw new Error('broken');
      });
    }
    store.onAcquire = () => granted(3_000, 100);
    const lock = await acquire();
    expect(lock.held).toBe(true);
    await lock.release();
    await settled();
    expect([locker.live.locks, reporter.lines.length]).toEqual([0, 2]);
  });
});
