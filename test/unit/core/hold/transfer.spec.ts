import { createHash } from 'node:crypto';
import { readTransferText, type TransferredHold, transferText } from '../../../../lib/core/hold/transfer-text.js';
import { LockConfigurationError, LockStoreError } from '../../../../lib/core/lock.errors.js';
import { thrownBy, rejection } from '../../../support/waiting/rejection.js';
import { type Lock } from '../../../../lib/core/lock.js';
import { type ResolvedLockOptions } from '../../../../lib/core/lock.options.js';
import { WATCH_HANDLES_AFTER_MS } from '../../../../lib/core/timing.js';
import { UnlockedHandle } from '../../../../lib/core/reentry/unlocked-run.js';
import { lockOptions, NOTHING, startLocker, transferred } from '../../../support/core/core-parts.js';
import { settled } from '../../../support/core/fake-clock.js';
import { gone, granted } from '../../../support/core/fake-store.js';
import { collectGarbage } from '../../../support/waiting/collect-garbage.js';

const HOLD = transferred({
  keyPrefix: 'lock:',
  holds: [{ key: 'order:7', attempt: 'client-1_x.abc00001', fencingToken: 1_800_000_000_000_000, unanswered: false }],
  leaseMs: 30_000,
});

/** A transfer token of this version with this payload, and its checksum. */
function forged(payload: string, begin = 'lock1.'): string {
  const text = begin + Buffer.from(payload).toString('base64url');
  return `${text}.${createHash('sha256').update(text).digest('base64url').slice(0, 8)}`;
}

const withHold = (change: object): string => forged(JSON.stringify({ ...HOLD, ...change }));
const [KEY] = HOLD.holds;

describe('the transfer token', () => {
  it.each<[string, Partial<TransferredHold>]>([
    ['of one key', {}],
    ['of several keys', { holds: [KEY!, { ...KEY!, key: 'b', attempt: 'c.00000002', unanswered: true }] }],
    ['of a named owner', { owner: 'the owner: ü' }],
    ['of a reader that wrote', { mode: 'read' }],
    ['of a lock that was handed on', { handedOn: 63 }],
    ['with a limit', { maxHoldMs: 1, renew: false, holdAtLeastMs: 5 }],
    ['of keys with any characters', { holds: [{ ...KEY!, key: 'a\n"\u{1F512}\u0000' }], keyPrefix: 'äpp:' }],
  ])('%s is read as it was written', (_, change) => {
    const hold = { ...HOLD, ...change };
    const text = transferText(hold);
    expect(text).toMatch(/^lock1\.[\w-]+\.[\w-]{8}$/);
    expect(readTransferText(text)).toEqual(hold);
  });

  it('is bounded in length, whatever its keys contain', () => {
    const holds = Array.from({ length: 16 }, (_, i) => ({ ...KEY!, key: '\u0001'.repeat(510) + i.toString(36) }));
    const text = transferText({ ...HOLD, holds, owner: '\u0001'.repeat(128), keyPrefix: '\u0001'.repeat(128) });
    expect(text.length).toBeLessThan(200_000);
    expect(readTransferText(text).holds).toHaveLength(16);
    expect(transferText(HOLD).length).toBeLessThan(500);
  });

  it.each<[string, unknown, string]>([
    ['nothing', undefined, 'got a value of type undefined'],
    ['an object', HOLD, 'got a value of type object'],
    ['another text', 'order:7', 'got a text of 7 characters'],
    ['an empty text', '', 'got a text of 0 characters'],
    ['a text of a newer version', forged('{}', 'lock2.'), 'got one of version 2'],
    ['a text without its end', transferText(HOLD).slice(0, -1), 'was truncated or changed'],
    ['a text that is too long', `lock1.${'a'.repeat(200_000)}`, 'got a text of 200006 characters'],
    ['a text with another character', transferText(HOLD).replace('lock1.e', 'lock1.f'), 'was truncated or changed'],
    ['no JSON', forged('{'), 'was truncated or changed'],
    ['null', forged('null'), 'was truncated or changed'],
    ['no keys', withHold({ holds: [] }), 'was truncated or changed'],
    ['too many keys', withHold({ holds: Array.from({ length: 17 }, (_, i) => ({ ...KEY!, key: `${i}` })) }), 'changed'],
    ['a key twice', withHold({ holds: [KEY, KEY] }), 'was truncated or changed'],
    ['an attempt that is not one', withHold({ holds: [{ ...KEY!, attempt: 'a b.c' }] }), 'was truncated or changed'],
    ['a token that is not one', withHold({ holds: [{ ...KEY!, fencingToken: 0 }] }), 'was truncated or changed'],
    ['a key that is not one', withHold({ holds: [{ ...KEY!, key: '\uD800' }] }), 'was truncated or changed'],
    ['an unknown mode', withHold({ mode: 'upgrade' }), 'was truncated or changed'],
    ['an owner that is not one', withHold({ owner: 7 }), 'was truncated or changed'],
    ['a lease that is not one', withHold({ leaseMs: 'long' }), 'was truncated or changed'],
    ['more tokens than a grant has', withHold({ handedOn: 64 }), 'was truncated or changed'],
  ])('is refused when it is %s, and is not shown', (_, text, expected) => {
    const error = thrownBy(() => readTransferText(text));
    expect(error).toBeInstanceOf(LockConfigurationError);
    expect(error.message).toContain('Expected the transfer token that `await lock.transfer()` has returned');
    expect(error.message).toContain(expected);
    expect(error.message.length).toBeLessThan(250);
  });
});

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
  it('has its whole lease renewed first, or a longer one, and returns a transfer token that names its hold', async () => {
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
    expect(store.renews.map(({ request }) => request[0]!.leaseMs)).toEqual([LEASE_MS, 0, 60_000]);
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

  it.each(['before', 'while'])('is neither awaited nor released by a shutdown: %s it', async (when) => {
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

  it('rejects when it is lost, released or transferred, before or in this moment, and is not transferred', async () => {
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

  it('reports that a command of its acquire had no answer, and prevents that a late grant is given back', async () => {
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

  it('does not give back the grant of a late node of a quorum while the store may have it', async () => {
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
