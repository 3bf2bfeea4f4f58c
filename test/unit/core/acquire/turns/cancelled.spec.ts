import { LockShutdownError, LockStoreError, LockWaitTimeoutError } from '../../../../../lib/core/lock.errors.js';
import { type StoreHold } from '../../../../../lib/core/hold/store-hold.js';
import { lockOptions } from '../../../../support/core/core-parts.js';
import { outcomeOf } from '../../../../support/waiting/outcome.js';
import { settled } from '../../../../support/core/fake-clock.js';
import { busy, granted } from '../../../../support/core/fake-store.js';
import { servedOf, startTurns } from './start-turns.js';

/** The first call waits in the store, and the others behind it. */
async function startWaiting() {
  const parts = startTurns();
  const { store, call } = parts;
  store.onAcquire = () => busy({ ahead: 1, holder: 'host:2' });
  const abort = new AbortController();
  const first = call({ signal: abort.signal });
  await settled();
  const { attempt } = store.acquires[0]!.request;
  const push = async (): Promise<void> => {
    store.listener!.onWakeUp(attempt, { kind: 'granted', fencingToken: 500, remainingMs: 3_000, serverTimeMs: 0 });
    await settled();
  };
  return { ...parts, abort, first, push };
}

describe('a call that waits behind others of its process', () => {
  it('leaves when its signal is aborted, and the others move up', async () => {
    const { call, hold, finish, locker } = startTurns();
    const lock = await hold();
    const [abort, reason] = [new AbortController(), new Error('the user left')];
    const [second, third] = [call({ signal: abort.signal }), call()];
    abort.abort(reason);
    await settled();
    expect([second.error, third, locker.live.waiting]).toEqual([reason, {}, 1]);
    await lock.release();
    await settled();
    expect(third.value!.fencingToken).toBe(1_001);
    await finish();
  });

  it('times out by its own waitMs, counted from its own beginning', async () => {
    const { clock, call, hold, sent, finish } = startTurns();
    await hold();
    await clock.advance(1);
    const [second, third] = [call({ waitMs: 8 }), call({ waitMs: 3 })];
    await clock.advance(2);
    expect([second, third]).toEqual([{}, {}]);
    await clock.advance(1);
    expect([second.error, third.error]).toEqual([undefined, expect.any(LockWaitTimeoutError)]);
    await clock.advance(5);
    expect([second.error, sent()]).toEqual([expect.any(LockWaitTimeoutError), [1, 0]]);
    await finish();
  });

  it('fails with the holder, and with how many wait before it', async () => {
    const { clock, call, hold } = startTurns();
    await hold();
    const [, , last] = [call(), call(), call({ waitMs: 5 })];
    await clock.advance(5);
    expect(last.error).toMatchObject({ key: 'k', mode: 'write', waitedMs: 5, holder: 'host:1' });
    expect((last.error as Error).message).toContain('was still busy after 5 ms, held by host:1, with 2 waiting ahead.');
  });

  it('counts the call that asks the store among those before it, and those of other processes', async () => {
    const { clock, call } = await startWaiting();
    const [, third] = [call(), call({ waitMs: 50 })];
    await clock.advance(50);
    expect(third.error).toBeInstanceOf(LockWaitTimeoutError);
    expect(third.error).toMatchObject({ holder: 'host:2' });
    // One in the queue of the store, then the call that waits there, then the second.
    expect((third.error as Error).message).toContain('held by host:2, with 3 waiting ahead.');
  });

  it('has as much time as a call that asks for itself while Redis gives no answer', async () => {
    const { clock, store, call } = startTurns();
    store.onAcquire = null;
    const [first, second, third] = [call({ waitMs: 100 }), call({ waitMs: 100 }), call({ waitMs: 1_500 })];
    await clock.advance(700);
    await settled();
    expect([first, second, third]).toEqual([{}, {}, {}]);
    await clock.advance(300);
    expect([first.error, second.error]).toEqual([expect.any(LockStoreError), expect.any(LockStoreError)]);
    expect(third).toEqual({});
    await clock.advance(500);
    expect(third.error).toBeInstanceOf(LockStoreError);
  });

  it('has that time when it goes on for one that was cancelled without an answer, too', async () => {
    const { clock, store, call } = startTurns();
    store.onAcquire = null;
    const abort = new AbortController();
    const [, second] = [call({ signal: abort.signal }), call({ waitMs: 100 })];
    await clock.advance(50);
    abort.abort();
    await clock.advance(900);
    expect(second).toEqual({});
    await clock.advance(50);
    expect(second.error).toBeInstanceOf(LockStoreError);
  });

  it('has no more than its waitMs when it asks for a lock that is known to be busy', async () => {
    const { clock, store, call, hold } = startTurns();
    await hold();
    store.onAcquire = null;
    const second = call({ waitMs: 50 });
    await clock.advance(49);
    expect([store.acquires.length, second]).toEqual([2, {}]);
    await clock.advance(1);
    expect(second.error).toBeInstanceOf(LockWaitTimeoutError);
  });

  it('ends at the end of its waitMs as soon as the lock is known to be busy', async () => {
    const { clock, store, call } = startTurns();
    store.onAcquire = null;
    const [first, second] = [call(), call({ waitMs: 100 })];
    await clock.advance(300);
    expect(second).toEqual({});
    store.acquires[0]!.reply(busy({ holder: 'host:2' }));
    await clock.advance(0);
    expect([first, second.error]).toEqual([{}, expect.any(LockWaitTimeoutError)]);
  });

  it('does not time out when it has the lock', async () => {
    const { clock, call, hold } = startTurns();
    const lock = await hold();
    const second = call({ waitMs: 5, signal: new AbortController().signal });
    await lock.release();
    await clock.advance(9);
    expect([second.value!.held, second.error]).toEqual([true, undefined]);
  });
});

describe('a call that asks the store for others, and is cancelled', () => {
  it.each(['signal', 'waitMs'])('leaves its place to the next one (%s)', async (how) => {
    const { clock, store, locker, call, abort, first, push, sent, finish } = await startWaiting();
    await clock.advance(1);
    const [second, third] = [call(), call()];
    if (how === 'signal') abort.abort();
    await clock.advance(how === 'signal' ? 0 : 9_999);
    expect([first.value, first.error]).toEqual([undefined, expect.anything()]);
    expect([second, third, locker.live.waiting]).toEqual([{}, {}, 2]);
    expect([sent()[1], new Set(store.acquires.map(({ request }) => request.attempt)).size]).toEqual([0, 1]);
    await push();
    expect([second.value!.fencingToken, third]).toEqual([500, {}]);
    await finish();
  });

  it('leaves it to the next one, whose own limits count from now on', async () => {
    const { clock, call, abort, sent, finish, first } = await startWaiting();
    const next = new AbortController();
    const [second, third, fourth] = [call({ waitMs: 50 }), call({ signal: next.signal }), call()];
    abort.abort();
    await clock.advance(49);
    expect([first.error, second]).toEqual([abort.signal.reason, {}]);
    await clock.advance(1);
    expect([second.error, third]).toEqual([expect.any(LockWaitTimeoutError), {}]);
    next.abort();
    await settled();
    expect([third.error, fourth, sent()[1]]).toEqual([next.signal.reason, {}, 0]);
    await clock.advance(10_000);
    // Nobody is left: the attempt is given back.
    expect([fourth.error, sent()[1]]).toEqual([expect.any(LockWaitTimeoutError), 1]);
    await finish();
  });

  it('leaves it to the next one, which tells the store its name, and gets the lock on its own terms', async () => {
    const { clock, store, locker, abort, acquired, push } = await startWaiting();
    await clock.advance(1_000);
    const label = { where: 'Orders.charge', template: 'k' };
    const second = outcomeOf(locker.acquire(locker.request(['k'], lockOptions({ maxHoldMs: 70 }), label)));
    abort.abort();
    await clock.advance(1_000);
    expect(store.acquires.at(-1)!.request.holder).toBe('host:1 Orders.charge\t10000');
    await push();
    expect((second.value as StoreHold).terms).toMatchObject({
      maxHoldMs: 70,
      holder: 'host:1 Orders.charge\t10000',
      label,
    });
    expect(acquired).toMatchObject([{ ...label, waitedMs: 1_000, waited: true, local: false }]);
  });

  it('leaves the command that is under way to the next one', async () => {
    const { store, call, sent } = startTurns();
    store.onAcquire = null;
    const abort = new AbortController();
    const [first, second] = [call({ signal: abort.signal }), call()];
    abort.abort();
    await settled();
    expect([first.error, second]).toEqual([abort.signal.reason, {}]);
    store.acquires[0]!.reply(granted(3_000, 700));
    await settled();
    expect([second.value!.fencingToken, sent()]).toEqual([700, [1, 0]]);
  });

  it('gives its place back if nobody else waits', async () => {
    const { store, abort, first, sent, finish } = await startWaiting();
    abort.abort();
    await settled();
    expect([first.error, sent()]).toEqual([abort.signal.reason, [1, 1]]);
    expect(store.releases[0]!.request.attempt).toBe(store.acquires[0]!.request.attempt);
    await finish();
  });

  it.each([2, 3, 5])('leaves no call behind when one signal is for all of them (%d calls)', async (count) => {
    const { store, calls, sent, finish } = startTurns();
    store.onAcquire = () => busy({ ahead: 1 });
    const abort = new AbortController();
    const all = calls(count, { signal: abort.signal, waitMs: Infinity });
    await settled();
    abort.abort();
    await settled();
    expect(all.map(({ error }) => error)).toEqual(all.map(() => abort.signal.reason as unknown));
    expect(sent()).toEqual([1, 1]);
    await finish();
  });

  it('passes over those whose signal was aborted, too', async () => {
    const { store, call, calls } = startTurns();
    store.onAcquire = null;
    const abort = new AbortController();
    const aborted = calls(2, { signal: abort.signal });
    const last = call();
    abort.abort();
    store.acquires[0]!.reply(granted(3_000, 500));
    await settled();
    expect([servedOf(aborted), last.value!.fencingToken]).toEqual([[false, false], 500]);
  });
});

describe('a signal whose listener releases the lock', () => {
  it.each([1, 2])('does not hand it to %d calls that wait with the same signal', async (count) => {
    const { call, calls, hold, finish } = startTurns();
    const lock = await hold();
    const abort = new AbortController();
    abort.signal.addEventListener('abort', () => void lock.release());
    const aborted = calls(count, { signal: abort.signal });
    const last = call();
    abort.abort();
    await settled();
    expect([servedOf(aborted), last.value!.fencingToken]).toEqual([aborted.map(() => false), 1_001]);
    expect(aborted.map(({ error }) => error)).toEqual(aborted.map(() => abort.signal.reason as unknown));
    await finish();
  });
});

describe('a shutdown', () => {
  it('cancels all calls that wait, and hands nothing on', async () => {
    const { clock, locker, calls, sent, local } = startTurns();
    const all = calls(4);
    await settled();
    const lock = all[0]!.value!;
    const closing = locker.close(2_000);
    await settled();
    expect(all.slice(1).map(({ error }) => error)).toEqual([1, 2, 3].map(() => expect.any(LockShutdownError)));
    expect([lock.held, lock.lost]).toEqual([true, null]);
    await lock.release();
    await closing;
    expect([sent(), local(), clock.keptAlive]).toEqual([[1, 1], [false], 0]);
    expect(locker.live).toEqual({ locks: 0, waiting: 0, releasing: 0, timers: 0 });
  });

  it('cancels the call that asks the store, too, and leaves its place to nobody', async () => {
    const { locker, calls, first, sent } = await startWaiting();
    const others = calls(2);
    await locker.close(2_000);
    await settled();
    expect([first, ...others].map(({ error }) => error)).toEqual([1, 2, 3].map(() => expect.any(LockShutdownError)));
    expect([sent(), locker.live]).toEqual([[1, 1], { locks: 0, waiting: 0, releasing: 0, timers: 0 }]);
  });

  it('refuses a call that a listener makes meanwhile', async () => {
    const { locker, call, calls, hold } = startTurns();
    const lock = await hold();
    calls(2);
    const late: ReturnType<typeof call>[] = [];
    let left = 3;
    locker.events.on('acquireFailed', () => void (left-- > 0 && late.push(call())));
    const closing = locker.close(2_000);
    await lock.release();
    await closing;
    await settled();
    expect(late.map(({ error }) => error)).toEqual([1, 2, 3].map(() => expect.any(LockShutdownError)));
    expect(locker.live.waiting).toBe(0);
  });
});
