import { readTransferText } from '../../../../../lib/core/hold/transfer-text.js';
import {
  LockConfigurationError,
  LockLostError,
  LockNotHeldError,
  LockStoreError,
} from '../../../../../lib/core/lock.errors.js';
import { type Lock } from '../../../../../lib/core/lock.js';
import { type ResolvedLockOptions } from '../../../../../lib/core/lock.options.js';
import { WATCH_HANDLES_AFTER_MS } from '../../../../../lib/core/timing.js';
import { UnlockedHandle } from '../../../../../lib/core/reentry/unlocked-run.js';
import { lockOptions, startLocker } from '../../../../support/core/core-parts.js';
import { settled } from '../../../../support/core/fake-clock.js';
import { busy, gone, granted } from '../../../../support/core/fake-store.js';
import { collectGarbage } from '../../../../support/waiting/collect-garbage.js';
import { rejection } from '../../../../support/waiting/rejection.js';

const LEASE_MS = 3_000;

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
  it('has its whole lease renewed first, and gives a text that names its hold', async () => {
    const { clock, store, acquire } = setUp();
    const lock = await acquire('k', { owner: 'ann', maxHoldMs: 10_000, holdAtLeastMs: 50 });
    await clock.advance(500);
    const text = await lock.transfer();
    expect(store.renews.at(-1)!.request).toMatchObject([{ key: 'k', leaseMs: LEASE_MS }]);
    const { attempt } = store.acquires[0]!.request;
    expect(readTransferText(text)).toEqual({
      keyPrefix: '',
      holds: [{ key: 'k', attempt, fencingToken: 100, unanswered: false }],
      mode: 'write',
      grantedMode: 'write',
      owner: 'ann',
      handedOn: 0,
      leaseMs: LEASE_MS,
      renew: true,
      maxHoldMs: 9_500,
      holdAtLeastMs: 50,
    });
  });

  it('asks for a longer lease when told to', async () => {
    const { store, acquire } = setUp();
    await (await acquire('k')).transfer({ leaseMs: 60_000 });
    expect(store.renews.at(-1)!.request).toMatchObject([{ leaseMs: 60_000 }]);
  });

  it('counts as released from then on: nothing is renewed, released or lost', async () => {
    const { clock, store, reporter, locker, acquire, events } = setUp();
    const lock = await acquire('k');
    const { signal } = lock;
    await lock.transfer();
    const renewals = store.renews.length;
    expect([lock.held, lock.remainingMs, await lock.release(), locker.live.locks]).toEqual([false, 0, false, 0]);
    await lock[Symbol.asyncDispose]();
    await expect(lock.extend(1_000)).rejects.toBeInstanceOf(LockNotHeldError);
    await expect(lock.transfer()).rejects.toBeInstanceOf(LockNotHeldError);
    await clock.advance(10 * LEASE_MS);
    expect([lock.signal.aborted, signal.aborted, lock.held]).toEqual([false, false, false]);
    expect([store.renews.length, store.releases, reporter.lines]).toEqual([renewals, [], []]);
    expect(events).toEqual(['acquired k', 'transferred k']);
  });

  it('leaves no timer behind', async () => {
    const { locker, acquire } = setUp();
    await (await acquire('k', { maxHoldMs: 10_000 })).transfer();
    expect(locker.live).toEqual({ locks: 0, waiting: 0, releasing: 0, timers: 0 });
  });

  it('is neither waited for nor released by a shutdown', async () => {
    const { store, locker, acquire } = setUp();
    await (await acquire('k')).transfer();
    await locker.close(60_000);
    expect(store.releases).toEqual([]);
  });

  it('may be transferred while the app shuts down', async () => {
    const { store, locker, acquire } = setUp();
    const lock = await acquire('k');
    const closed = locker.close(60_000);
    await lock.transfer();
    await closed;
    expect(store.releases).toEqual([]);
  });

  it('is not released when it is garbage-collected, and kept while it is transferred', async () => {
    const { clock, store, reporter, acquire } = setUp();
    store.onRenew = null;
    const transferring = (async () => (await acquire('k')).transfer())();
    await clock.advance(WATCH_HANDLES_AFTER_MS);
    for (let i = 0; i < 2; i += 1) await collectGarbage();
    expect([store.releases, reporter.lines]).toEqual([[], []]);
    store.renews[0]!.reply([{ outcome: 'renewed', remainingMs: LEASE_MS }]);
    await transferring;
    for (let i = 0; i < 2; i += 1) await collectGarbage();
    expect([store.releases, reporter.lines]).toEqual([[], []]);
  }, 30_000);

  it('passes the lock to no other call of its process: the next one asks the store', async () => {
    const { store, locker, acquire } = setUp({ reservesTokens: true });
    const lock = await acquire('k');
    store.onAcquire = () => busy();
    const waiting = acquire('k', { waitMs: 60_000 });
    await settled();
    expect(store.acquires).toHaveLength(1);
    await lock.transfer();
    expect(store.acquires).toHaveLength(2);
    await settled();
    expect(locker.live).toMatchObject({ locks: 0, waiting: 1 });
    store.onAcquire = () => granted(LEASE_MS, 200);
    locker.onListening();
    expect((await waiting).fencingToken).toBe(200);
  });

  it('keeps the token that another call of its process handed on', async () => {
    const { acquire } = setUp({ reservesTokens: true });
    const first = await acquire('k');
    const second = acquire('k');
    await first.release();
    const lock = await second;
    expect(lock.fencingToken).toBe(101);
    expect(readTransferText(await lock.transfer())).toMatchObject({ handedOn: 1, holds: [{ fencingToken: 100 }] });
  });

  it('tells in which mode it was granted, and in which it is now', async () => {
    const { acquire } = setUp();
    const lock = await acquire('k');
    await lock.downgrade();
    expect(readTransferText(await lock.transfer())).toMatchObject({ mode: 'read', grantedMode: 'write' });
  });

  it('of several keys gives one text, also when they were acquired one after the other', async () => {
    for (const groups of [
      (keys: readonly string[]) => [keys.toSorted()],
      (keys: readonly string[]) => keys.map((key) => [key]),
    ]) {
      const { clock, store, locker, acquire, events } = setUp();
      store.groups = groups;
      const lock = await acquire(['b', 'a', 'c']);
      const text = await lock.transfer();
      const { holds } = readTransferText(text);
      expect(holds.map(({ key, fencingToken }) => [key, fencingToken])).toEqual(
        lock.keys.map((key, i) => [key, lock.fencingTokens[i]]),
      );
      expect(holds.map(({ attempt }) => attempt)).toEqual(
        ['b', 'a', 'c'].map((key) => store.acquires.find(({ request }) => request.keys.includes(key))!.request.attempt),
      );
      await clock.advance(10 * LEASE_MS);
      expect([lock.held, await lock.release(), locker.live.locks, store.releases]).toEqual([false, false, 0, []]);
      expect(events.filter((event) => event.startsWith('lost'))).toEqual([]);
    }
  });

  it('is kept when the store does not confirm that it is held', async () => {
    const { clock, store, acquire } = setUp();
    const lock = await acquire('k');
    store.onRenew = (requests) => requests.map(() => ({ outcome: 'unknown', cause: new Error('down') }));
    await expect(lock.transfer()).rejects.toBeInstanceOf(LockStoreError);
    expect(lock.held).toBe(true);
    store.onRenew = (requests) => requests.map(({ leaseMs }) => ({ outcome: 'renewed', remainingMs: leaseMs }));
    await clock.advance(LEASE_MS);
    expect(lock.held).toBe(true);
    await lock.transfer();
  });

  it('rejects when it is lost, before or in this moment, and is not given away', async () => {
    const { store, locker, acquire } = setUp();
    const lock = await acquire('k');
    store.onRenew = () => [gone(999)];
    const error = await rejection(lock.transfer());
    expect(error).toBeInstanceOf(LockLostError);
    expect([(error as LockLostError).reason, locker.live.locks]).toEqual(['taken', 0]);
    await expect(lock.transfer()).rejects.toBe(error);
  });

  it('rejects when it was released, before or meanwhile', async () => {
    const { store, acquire } = setUp();
    const lock = await acquire('k');
    store.onRenew = null;
    const transferring = rejection(lock.transfer());
    const released = lock.release();
    store.renews[0]!.reply([{ outcome: 'renewed', remainingMs: LEASE_MS }]);
    expect(await transferring).toBeInstanceOf(LockNotHeldError);
    expect(await released).toBe(true);
    await expect(lock.transfer()).rejects.toBeInstanceOf(LockNotHeldError);
  });

  it('gives one text when it is transferred twice at the same time', async () => {
    const { acquire } = setUp();
    const lock = await acquire('k');
    const both = await Promise.allSettled([lock.transfer(), lock.transfer()]);
    expect(both.map(({ status }) => status)).toEqual(['fulfilled', 'rejected']);
    expect((both[1] as PromiseRejectedResult).reason).toBeInstanceOf(LockNotHeldError);
  });

  it('rejects wrong options, and sends nothing', async () => {
    const { store, acquire } = setUp();
    const lock = await acquire('k');
    for (const options of [{ leaseMs: 1 }, { leaseMs: '5s' }, { waitMs: 5 }, null]) {
      await expect(lock.transfer(options as object)).rejects.toBeInstanceOf(LockConfigurationError);
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
    store.acquires[0]!.replyLate(granted(LEASE_MS, 100));
    await settled();
    expect(store.releases).toEqual([]);
    await clock.advance(1);
    store.acquires[0]!.replyLate(granted(LEASE_MS, 100));
    await settled();
    expect(store.releases).toHaveLength(1);
  });
});

describe('a lock that has no handle', () => {
  it('cannot be transferred: the call whose work holds it releases it', async () => {
    const { store, under } = setUp();
    await under('k', async (outer) => {
      for (const lock of [outer, await under('k', (nested) => nested)]) {
        const error = await rejection(lock.transfer());
        expect(error).toBeInstanceOf(LockConfigurationError);
        expect(error.message).toContain('take it with `acquire` or `tryAcquire`');
      }
      expect(outer.held).toBe(true);
    });
    expect([store.renews, store.givenBack]).toEqual([[], ['k']]);
  });

  it('cannot be transferred when it holds nothing', async () => {
    await expect(new UnlockedHandle(['k'], 'write').transfer()).rejects.toBeInstanceOf(LockNotHeldError);
  });
});
