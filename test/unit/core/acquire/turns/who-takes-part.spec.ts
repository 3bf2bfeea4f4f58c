import { type StoreHold } from '../../../../../lib/core/hold/store-hold.js';
import { type ResolvedLockOptions } from '../../../../../lib/core/lock.options.js';
import { type FireClaim } from '../../../../../lib/core/store/fires.js';
import { lockOptions, startLocker } from '../../../../support/core/core-parts.js';
import { settled } from '../../../../support/core/fake-clock.js';
import { busy } from '../../../../support/core/fake-store.js';
import { outcomeOf } from '../../../../support/waiting/outcome.js';
import { startTurns } from './start-turns.js';

/** What a call must not ask for if it is to be handed the lock of another one. */
const ALONE: [string, Partial<ResolvedLockOptions>][] = [
  ['reads', { mode: 'read' }],
  ['takes a permit', { mode: 'read', permits: 3 }],
  ['names its owner', { owner: 'me' }],
  ['keeps the lock for a while', { holdAtLeastMs: 100 }],
  ['gives up the order', { fair: false }],
  ["wants the order of all callers (`fair: 'strict'`)", { fair: 'strict' }],
  ['does not wait', { waitMs: 0 }],
  ['bounds the queue', { maxWaiters: 5 }],
  ['is not renewed', { renew: false }],
  ['has a lease of another length', { leaseMs: 3_001 }],
];

const TOGETHER: [string, Partial<ResolvedLockOptions>][] = [
  ['waits for a moment', { waitMs: 1 }],
  ['waits for ever', { waitMs: Infinity }],
  ['may hold the lock for a while only', { maxHoldMs: 60_000 }],
  ['does not wait for its release', { awaitRelease: false }],
  ['is not reentrant', { reentrant: false }],
  ['has a signal', { signal: new AbortController().signal }],
];

describe('a call that waits for the lock of another one of its process', () => {
  it.each(ALONE)('asks the store for itself if it %s', async (_what, options) => {
    const { store, call, hold, sent, local } = startTurns();
    const lock = await hold();
    store.onAcquire = () => busy();
    const other = call(options);
    await settled();
    expect(sent()).toEqual([2, 0]);
    await lock.release();
    await settled();
    expect([sent()[1], local(), other.value]).toEqual([1, [false], undefined]);
  });

  it.each(TOGETHER)('is handed it if it %s', async (_what, options) => {
    const { call, hold, sent, local, finish } = startTurns();
    const lock = await hold();
    const other = call(options);
    await lock.release();
    await settled();
    expect([sent(), local(), other.value!.held]).toEqual([[1, 0], [false, true], true]);
    await finish();
  });

  it('has its own terms when it was handed the lock', async () => {
    const { locker, call, hold } = startTurns();
    const lock = await hold({ maxHoldMs: 50 });
    const label = { where: 'Orders.charge', template: 'k' };
    const request = locker.request(['k'], lockOptions({ maxHoldMs: 70, awaitRelease: false }), label);
    const other = outcomeOf(locker.acquire(request) as Promise<StoreHold>);
    call();
    await lock.release();
    await settled();
    const { terms } = other.value!;
    expect(terms).toMatchObject({ maxHoldMs: 70, awaitRelease: false, holder: 'host:1 Orders.charge\t10000', label });
  });
});

describe('the lock of a call that does not take part', () => {
  it.each(ALONE.slice(0, -1))('is handed to nobody if it %s', async (_what, options) => {
    const { call, hold, sent, local, finish } = startTurns();
    const lock = await hold(options);
    const other = call();
    await settled();
    // It does not wait for that lock, which the store grants or not.
    expect(sent()).toEqual([2, 0]);
    await lock.release();
    await settled();
    expect([sent(), local(), other.value!.held]).toEqual([[2, 1], [false, false], true]);
    await finish();
  });

  it('is handed to nobody when it is released beside one of a turn', async () => {
    const { call, hold, sent, local } = startTurns();
    // Not even a store that lets both in, as one that was emptied does.
    const [first, other] = [await hold(), await hold({ owner: 'me' })];
    const waiting = call();
    await other.release();
    await settled();
    expect([sent(), local(), waiting, first.held]).toEqual([[2, 1], [false, false], {}, true]);
  });

  it('is handed to nobody if it has several keys, and neither is one handed to it', async () => {
    const { call, sent, local, finish } = startTurns();
    const both = call({}, ['k', 'j']);
    const [k, j] = [call({}, ['k']), call({}, ['j'])];
    await settled();
    expect(sent()[0]).toBe(3);
    const bothLater = call({}, ['j', 'k']);
    await settled();
    for (const { value } of [both, k, j, bothLater]) await value!.release();
    expect(local()).toEqual([false, false, false, false]);
    await finish();
  });

  it('is handed to nobody if it is one of several keys in different slots', async () => {
    const { store, call, sent, local, finish } = startTurns();
    store.groups = (keys) => keys.map((key) => [key]);
    const both = call({}, ['k', 'j']);
    await settled();
    const later = call({}, ['k', 'j']);
    await settled();
    // It waits for neither of them here: each is asked of the store, which grants it.
    expect(sent()).toEqual([4, 0]);
    await both.value!.release();
    await later.value!.release();
    expect(local()).toEqual([false, false, false, false]);
    await finish();
  });

  it('is handed to nobody if it claims the fire of a job', async () => {
    const { store, locker, call, sent, local } = startTurns();
    const claim: FireClaim = { job: 'Reports.noon', fireMs: 1, rememberMs: 1_000 } as never;
    const grant = store.onAcquire!;
    store.onAcquire = (request) => ({ ...grant(request), fireMs: 1 }) as never;
    const job = (): { value?: StoreHold } =>
      outcomeOf(locker.acquire(locker.request(['k'], lockOptions(), undefined, claim)) as Promise<StoreHold>);
    const [first, second] = [job(), job()];
    const plain = call();
    await settled();
    expect(sent()).toEqual([3, 0]);
    for (const { value } of [first, second, plain]) await value!.release();
    expect(local()).toEqual([false, false, false]);
  });
});

describe('the leases of a turn', () => {
  it('have the length of the first call, until nobody wants the key any more', async () => {
    const { call, hold, local, finish } = startTurns();
    const [short, long] = [{ leaseMs: 1_000 }, { leaseMs: 9_000 }];
    const first = await hold(short);
    call(long);
    call(long);
    await settled();
    expect(local()).toEqual([false, false, false]);
    await first.release();
    await finish();
    const next = await hold(long);
    call(long);
    await next.release();
    await settled();
    expect(local().at(-1)).toBe(true);
    await finish();
  });

  it('have that length while the first call holds the lock, although nobody waits any more', async () => {
    const { clock, hold, call, sent } = startTurns();
    await hold();
    call({ waitMs: 5 });
    await clock.advance(20);
    call({ leaseMs: 1_000 });
    call({ leaseMs: 1_000 });
    expect(sent()).toEqual([3, 0]);
  });

  it('are forgotten when the last call has failed, too', async () => {
    const { store, call, hold, local } = startTurns();
    const answer = store.onAcquire!;
    store.onAcquire = () => busy();
    const abort = new AbortController();
    call({ signal: abort.signal, leaseMs: 1_000 });
    await settled();
    abort.abort();
    store.onAcquire = answer;
    const next = await hold();
    call();
    await next.release();
    await settled();
    expect(local()).toEqual([false, true]);
  });
});

describe('a store that reserves no tokens', () => {
  it('is asked by each call', async () => {
    const { store, locker } = startLocker();
    const locks = [0, 1].map(() => outcomeOf(locker.acquire(locker.request(['k'], lockOptions()))));
    await settled();
    for (const { value } of locks) await value!.release();
    expect([store.acquires.length, store.releases.length]).toEqual([2, 2]);
  });
});
