import { LockStoreError } from '../../../../../lib/core/lock.errors.js';
import { WATCH_HANDLES_AFTER_MS } from '../../../../../lib/core/timing.js';
import { collectGarbage } from '../../../../support/waiting/collect-garbage.js';
import { settled } from '../../../../support/core/fake-clock.js';
import { busy, granted } from '../../../../support/core/fake-store.js';
import { eventually } from '../../../../support/waiting/eventually.js';
import { startTurns } from './start-turns.js';

describe('a store that fails while calls wait', () => {
  it('is asked by each of them in turn when no further try may help', async () => {
    const { store, calls, sent, finish } = startTurns();
    const error = new LockStoreError('wrong password', { retryable: false, wasSent: false });
    store.acquire = () => Promise.reject(error);
    const all = calls(3);
    await settled();
    expect(all.map((call) => call.error)).toEqual([error, error, error]);
    expect(sent()).toEqual([0, 0]);
    await finish();
  });

  it('fails only the call that asks: the next one tries for itself', async () => {
    const { store, calls, finish } = startTurns();
    const answer = store.onAcquire!;
    const error = new LockStoreError('a key of another type', { retryable: false, wasSent: false });
    store.onAcquire = null;
    const [first, second, third] = calls(3);
    store.onAcquire = answer;
    store.acquires[0]!.fail(error);
    await settled();
    expect([first!.error, second!.value!.held, third]).toEqual([error, true, {}]);
    await second!.value!.release();
    await settled();
    expect(third!.value!.fencingToken).toBe(1_001);
    await finish();
  });

  it('is asked again by the same call, and each call fails at the end of its own waitMs', async () => {
    const { clock, store, call, finish } = startTurns();
    store.acquire = () => Promise.reject(new LockStoreError('away', { wasSent: false }));
    const [first, second] = [call({ waitMs: 3_000 }), call({ waitMs: 2_000 })];
    await clock.advance(2_000);
    expect([first, second.error]).toEqual([{}, expect.any(LockStoreError)]);
    expect((second.error as Error).message).toContain('was not acquired within 2000 ms: away');
    await clock.advance(1_000);
    expect(first.error).toBeInstanceOf(LockStoreError);
    await finish();
  });

  it('is asked by the next one after an outage in the middle of a turn', async () => {
    const { clock, store, calls, finish } = startTurns();
    const [first, second] = calls(2);
    await settled();
    const answer = store.onAcquire!;
    store.onAcquire = null;
    clock.jump(10);
    void first!.value!.release();
    await settled();
    store.acquires[1]!.fail(new LockStoreError('cut', { wasSent: true }));
    store.onAcquire = answer;
    await clock.advance(1_000);
    expect(second!.value!.held).toBe(true);
    await finish();
  });

  it('that refuses an attempt which was released is asked with another one', async () => {
    const { store, calls, finish } = startTurns();
    const answer = store.onAcquire!;
    store.onAcquire = null;
    const [first, second] = calls(2);
    store.onAcquire = answer;
    store.acquires[0]!.reply({ outcome: 'refused', reason: 'released', serverTimeMs: 0 } as never);
    await settled();
    expect([first!.value!.held, second]).toEqual([true, {}]);
    await finish();
  });

  it('whose grant comes too late to be proven is asked again, and nobody is handed anything', async () => {
    const { clock, store, calls, local, finish } = startTurns();
    const answer = store.onAcquire!;
    store.onAcquire = null;
    const [first, second] = calls(2);
    clock.jump(3_100);
    store.onAcquire = answer;
    store.acquires[0]!.reply(granted(3_000, 7));
    await settled();
    expect([first!.value!.held, second, local(), store.acquires.length]).toEqual([true, {}, [false], 2]);
    await finish();
  });

  it('that grants a call which was cancelled meanwhile gets the lock back', async () => {
    const { store, call, sent, finish } = startTurns();
    store.onAcquire = null;
    const abort = new AbortController();
    const first = call({ signal: abort.signal });
    abort.abort();
    await settled();
    expect(first.error).toBe(abort.signal.reason);
    const next = call();
    store.acquires[0]!.reply(granted(3_000, 7));
    store.acquires[1]!.reply(granted(3_000, 80));
    await settled();
    expect([
      next.value!.fencingToken,
      store.releases.every(({ request }) => request.attempt !== next.value!.attempt),
    ]).toEqual([80, true]);
    expect(sent()[1]).toBeGreaterThan(0);
    await finish();
  });
});

describe('a message of the store', () => {
  it('wakes the call that asks, for all that wait behind it', async () => {
    const { store, calls, sent } = startTurns();
    const answer = store.onAcquire!;
    store.onAcquire = () => busy();
    const all = calls(3);
    await settled();
    store.onAcquire = answer;
    store.listener!.onListening();
    await settled();
    expect([sent()[0], all[0]!.value!.held, all[1]]).toEqual([2, true, {}]);
  });
});

describe('a handle that is dropped without a release', () => {
  it('is released in the store, since its turn is over when it is noticed', async () => {
    const { clock, locker, store, hold, call, acquired } = startTurns();
    const drop = async (): Promise<void> => void locker.handles.handOut(await hold());
    await drop();
    const second = call();
    await clock.advance(WATCH_HANDLES_AFTER_MS);
    await eventually(async () => {
      await collectGarbage();
      return store.releases.length > 0;
    });
    expect(second.value!.held).toBe(true);
    expect(acquired.map(({ local }) => local)).toEqual([false, false]);
    expect(store.releases.length).toBe(1);
  });

  it('hands nothing on if somebody may still rely on its signal: the lock is lost', async () => {
    const { clock, locker, hold, call, acquired, store } = startTurns();
    const drop = async (): Promise<AbortSignal> => locker.handles.handOut(await hold()).signal;
    const signal = await drop();
    const second = call();
    await clock.advance(WATCH_HANDLES_AFTER_MS);
    await eventually(async () => {
      await collectGarbage();
      return second.value;
    });
    expect([signal.aborted, acquired.map(({ local }) => local)]).toEqual([true, [false, false]]);
    expect(store.releases.length).toBe(1);
  });

  it('was handed the lock by another one: it is released', async () => {
    const { clock, locker, hold, call, store } = startTurns();
    const lock = await hold();
    const drop = async (): Promise<void> => {
      const second = call();
      await lock.release();
      await settled();
      locker.handles.handOut(second.value!);
    };
    await drop();
    await clock.advance(WATCH_HANDLES_AFTER_MS);
    await eventually(async () => {
      await collectGarbage();
      return store.releases.length === 1;
    });
    expect(locker.holds.size).toBe(0);
  });
});
