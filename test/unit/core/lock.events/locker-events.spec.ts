import { type LockEventName } from '../../../../lib/core/lock.events.js';
import { LockStoreError } from '../../../../lib/core/lock.errors.js';
import { EVENT_NAMES } from '../../../support/apps/event-names.js';
import { lockOptions, startLocker } from '../../../support/core/core-parts.js';
import { settled } from '../../../support/core/fake-clock.js';
import { busy } from '../../../support/core/fake-store.js';
import { outcomeOf } from '../../../support/waiting/outcome.js';

const NOTHING = { locks: 0, waiting: 0, releasing: 0, timers: 0 };
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
});

describe('a listener of `waiting` that aborts the wait', () => {
  it('leaves no timer and no place in the queue', async () => {
    const { clock, store, locker, enter } = startLocker();
    const [controller, reason] = [new AbortController(), new Error('not now')];
    locker.events.on('waiting', () => controller.abort(reason));
    store.onAcquire = () => busy({ ahead: 2 });
    const outcome = outcomeOf(enter('k', { signal: controller.signal }));
    await settled();
    expect([outcome.error, store.givenBack, locker.live]).toEqual([reason, ['k'], NOTHING]);
    await clock.advance(60_000);
    expect([store.asked, clock.timers]).toEqual([['k'], 0]);
  });
});

describe('a listener of renewals that releases the lock', () => {
  it.each(['renewed', 'renewFailed'] as const)('leaves no timer at `%s` of an extension', async (name) => {
    const { store, locker, enter } = startLocker();
    if (name === 'renewFailed') store.onRenew = () => [{ outcome: 'unknown', cause: new Error('down') }];
    const lock = await enter('k');
    locker.events.on(name, () => void lock.release());
    await expect(lock.extend(60_000)).rejects.toMatchObject({ code: 'LOCK_NOT_HELD' });
    await settled();
    expect([store.givenBack, locker.live]).toEqual([['k'], NOTHING]);
  });
});
