import { LockStoreError } from '../../../../../lib/core/lock.errors.js';
import { type Lock } from '../../../../../lib/core/lock.js';
import { type ResolvedLockOptions } from '../../../../../lib/core/lock.options.js';
import { WATCH_HANDLES_AFTER_MS } from '../../../../../lib/core/timing.js';
import { readTransferText } from '../../../../../lib/core/hold/transfer-text.js';
import { UnlockedHandle } from '../../../../../lib/core/reentry/unlocked-run.js';
import { lockOptions, startLocker } from '../../../../support/core/core-parts.js';
import { settled } from '../../../../support/core/fake-clock.js';
import { gone, granted } from '../../../../support/core/fake-store.js';
import { collectGarbage } from '../../../../support/waiting/collect-garbage.js';
import { rejection } from '../../../../support/waiting/rejection.js';

const LEASE_MS = 3_000;
const NOTHING = { locks: 0, waiting: 0, releasing: 0, timers: 0 };

function setUp(parts: Parameters<typeof startLocker>[0] = {}) {
  const started = startLocker(parts);
  const { locker } = started;
  const acquire = async (keys: string | readonly string[], options: Partial<ResolvedLockOptions> = {}): Promise<Lock> =>
    locker.handles.handOut(await locker.acquire(locker.request([keys].flat(), lockOptions(options))));
  const events: string[] = [];
  for (const name of ['acquired', 'released', 'transferred', 'lost'] as const) {
    locker.events.on(name, ({ key }) => events.push(`${name} ${key}`));
  }
  return { ...started, acquire, events };
}

describe('a handle that is transferred', () => {
  it('has its whole lease renewed first, or a longer one, and gives a text that names its hold', async () => {
    const { clock, store, acquire } = setUp();
    const lock = await acquire('k', { owner: 'ann', maxHoldMs: 10_000, holdAtLeastMs: 50 });
    await clock.advance(500);
    const text = await lock.transfer();
    const { attempt } = store.acquires[0]!.request;
    const [holds, terms] = [
      [{ key: 'k', attempt, fencingToken: 100, unanswered: false }],
      { owner: 'ann', handedOn: 0, leaseMs: LEASE_MS, renew: true, maxHoldMs: 9_500, holdAtLeastMs: 50 },
    ];
    expect(readTransferText(text)).toEqual({ keyPrefix: '', holds, mode: 'write', grantedMode: 'write', ...terms });
    const downgraded = await acquire('other');
    await downgraded.downgrade();
    const readable = readTransferText(await downgraded.transfer({ leaseMs: 60_000 }));
    expect(readable).toMatchObject({ mode: 'read', grantedMode: 'write' });
    expect(store.renews.map(({ request }) => request[0]!.leaseMs)).toEqual([LEASE_MS, 60_000]);
  });

  it('counts as released from then on: nothing is renewed, released or lost, and no timer is left', async () => {
    const { clock, store, reporter, locker, acquire, events } = setUp();
    const lock = await acquire('k', { maxHoldMs: 10_000 });
    const { signal } = lock;
    await lock.transfer();
    expect([lock.held, lock.remainingMs, await lock.release(), locker.live]).toEqual([false, 0, false, NOTHING]);
    await lock[Symbol.asyncDispose]();
    for (const refused of [lock.extend(1_000), lock.transfer()]) {
      await expect(refused).rejects.toMatchObject({ code: 'LOCK_NOT_HELD' });
    }
    await clock.advance(10 * LEASE_MS);
    expect([lock.signal.aborted, signal.aborted]).toEqual([false, false]);
    expect([store.renews.length, store.releases, reporter.lines]).toEqual([1, [], []]);
    expect(events).toEqual(['acquired k', 'transferred k']);
  });

  it.each(['before', 'while'])('is neither waited for nor released by a shutdown: %s it', async (when) => {
    const { store, locker, acquire } = setUp();
    const lock = await acquire('k');
    if (when === 'before') await lock.transfer();
    const closed = locker.close(60_000);
    if (when === 'while') await lock.transfer();
    await closed;
    expect(store.releases).toEqual([]);
  });

  it('is not released when it is garbage-collected, and kept while it is transferred', async () => {
    const { clock, store, reporter, acquire } = setUp();
    store.onRenew = null;
    const transferring = (async () => (await acquire('k')).transfer())();
    await clock.advance(WATCH_HANDLES_AFTER_MS);
    for (let i = 0; i < 4; i += 1) {
      await collectGarbage();
      expect([store.releases, reporter.lines]).toEqual([[], []]);
      if (i === 1) store.renews[0]!.reply([{ outcome: 'renewed', remainingMs: LEASE_MS }]);
      if (i === 1) await transferring;
    }
  });

  it('rejects when it is lost, released or transferred, before or in this moment, and is not given away', async () => {
    const { store, locker, acquire } = setUp();
    const [lost, released, twice] = [await acquire('a'), await acquire('b'), await acquire('c')];
    const both = await Promise.allSettled([twice.transfer(), twice.transfer()]);
    expect(both).toMatchObject([{ status: 'fulfilled' }, { reason: { code: 'LOCK_NOT_HELD' } }]);
    store.onRenew = () => [gone(999)];
    const error = await rejection(lost.transfer());
    expect(error).toMatchObject({ code: 'LOCK_LOST', reason: 'taken' });
    expect(await rejection(lost.transfer())).toBe(error);
    store.onRenew = null;
    const transferring = rejection(released.transfer());
    const releasing = released.release();
    store.renews.at(-1)!.reply([{ outcome: 'renewed', remainingMs: LEASE_MS }]);
    expect([await transferring, await releasing]).toMatchObject([{ code: 'LOCK_NOT_HELD' }, true]);
    expect(await rejection(released.transfer())).toMatchObject({ code: 'LOCK_NOT_HELD' });
    expect(locker.live.locks).toBe(0);
  });

  it('rejects wrong options, and sends nothing', async () => {
    const { store, acquire } = setUp();
    const lock = await acquire('k');
    for (const options of [{ leaseMs: 1 }, { leaseMs: '5s' }, { waitMs: 5 }, null]) {
      await expect(lock.transfer(options as object)).rejects.toMatchObject({ code: 'LOCK_CONFIGURATION' });
    }
    expect([store.renews, lock.held]).toEqual([[], true]);
  });

  it('says that a command of its acquire had no answer, and keeps a late grant from being given back', async () => {
    const { clock, store, locker, acquire } = setUp();
    store.onAcquire = null;
    const acquiring = acquire('k');
    store.acquires[0]!.fail(new LockStoreError('no answer'));
    await clock.advance(500);
    store.acquires[1]!.reply(granted(LEASE_MS, 100));
    const lock = await acquiring;
    expect(readTransferText(await lock.transfer())).toMatchObject({ holds: [{ unanswered: true }] });
    store.acquires[0]!.replyLate(granted(LEASE_MS, 100));
    await settled();
    expect(store.releases).toEqual([]);
    await clock.advance(2 * LEASE_MS);
    expect(locker.live.timers).toBe(0);
  });

  it('has no grant of a late node of a quorum given back while the store may have it', async () => {
    const { clock, store, acquire } = setUp();
    const lock = await acquire('k');
    await lock.transfer({ leaseMs: 2 * LEASE_MS });
    await clock.advance(2 * LEASE_MS - 1);
    for (const releases of [0, 1]) {
      store.acquires[0]!.replyLate(granted(LEASE_MS, 100));
      await settled();
      expect(store.releases).toHaveLength(releases);
      await clock.advance(1);
    }
  });
});

describe('a run without its lock', () => {
  it('cannot be transferred', async () => {
    await expect(new UnlockedHandle(['k'], 'write').transfer()).rejects.toMatchObject({ code: 'LOCK_NOT_HELD' });
  });
});
