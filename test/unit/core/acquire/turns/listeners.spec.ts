import { describe, expect, it } from '@jest/globals';
import { settled } from '../../../../support/core/fake-clock.js';
import { busy } from '../../../../support/core/fake-store.js';
import { type Call, servedOf, startTurns } from './start-turns.js';

describe('a listener that acquires the same lock', () => {
  it.each(['released', 'acquired', 'waiting', 'acquireFailed'] as const)('in %s waits as any other', async (name) => {
    const { locker, call, calls, hold, acquired, finish } = startTurns();
    const lock = await hold();
    const late: Call[] = [];
    let isFirst = true;
    locker.events.on(name, () => {
      if (!isFirst) return;
      isFirst = false;
      late.push(call());
    });
    const abort = new AbortController();
    const aborted = call({ signal: abort.signal });
    abort.abort();
    const others = calls(2);
    await lock.release();
    await settled();
    // The listener of `waiting` and of `acquireFailed` came before them.
    const inOrder = name === 'released' || name === 'acquired' ? [...others, ...late] : [...late, ...others];
    for (const one of inOrder) {
      expect(one.value!.held).toBe(true);
      await one.value!.release();
      await settled();
    }
    expect([aborted.error, acquired.map(({ fencingToken }) => fencingToken)]).toEqual([
      abort.signal.reason,
      [1_000, 1_001, 1_002, 1_003],
    ]);
    await finish();
  });

  it('in `acquired`, at the grant of the store, is served in the same turn', async () => {
    const { store, locker, call, acquired } = startTurns();
    store.onAcquire = () => busy();
    const first = call();
    await settled();
    let late: Call | undefined;
    locker.events.on('acquired', () => void (late ??= call()));
    store.listener!.onWakeUp(store.acquires[0]!.request.attempt, {
      kind: 'granted',
      fencingToken: 300,
      remainingMs: 3_000,
      serverTimeMs: 0,
    });
    await settled();
    await first.value!.release();
    await settled();
    expect([late!.value!.held, acquired.map(({ fencingToken }) => fencingToken)]).toEqual([true, [300, 301]]);
  });

  it('in `released` asks the store when the turn is over, and the next one still has the lock', async () => {
    const { clock, store, locker, call, hold, finish } = startTurns();
    const lock = await hold();
    const second = call();
    let late: Call | undefined;
    locker.events.on('released', () => {
      if (late) return;
      clock.jump(20);
      late = call();
    });
    const answer = store.onAcquire!;
    store.onAcquire = null;
    await lock.release();
    await settled();
    expect([second.value!.held, store.acquires.length, late]).toEqual([true, 2, {}]);
    await second.value!.release();
    store.acquires[1]!.reply(answer(store.acquires[1]!.request));
    await settled();
    expect(late!.value!.held).toBe(true);
    await finish();
  });
});

describe('a listener that cancels other calls', () => {
  it.each(['released', 'acquired'] as const)('in %s, while the lock is handed on, does no harm', async (name) => {
    const { locker, call, calls, hold, finish } = startTurns();
    const lock = await hold();
    const abort = new AbortController();
    const aborted = calls(3, { signal: abort.signal });
    const last = call();
    locker.events.on(name, () => abort.abort());
    await lock.release();
    await settled();
    // The first of them was being handed the lock.
    expect(servedOf(aborted)).toEqual([true, false, false]);
    await aborted[0]!.value!.release();
    await settled();
    expect(last.value!.fencingToken).toBe(1_002);
    await finish();
  });

  it('in `waiting` of its own call leaves nothing behind', async () => {
    const { locker, call, hold, finish } = startTurns();
    await hold();
    const abort = new AbortController();
    locker.events.on('waiting', () => abort.abort());
    const second = call({ signal: abort.signal });
    await settled();
    expect([second.error, locker.live.waiting]).toEqual([abort.signal.reason, 0]);
    await finish();
  });

  it('throws, which has no effect', async () => {
    const { locker, reporter, calls } = startTurns();
    for (const name of ['acquired', 'released', 'waiting'] as const) {
      locker.events.on(name, () => {
        throw new Error('a bug');
      });
    }
    const [first, second] = calls(2);
    await settled();
    expect(await first!.value!.release()).toBe(true);
    await settled();
    expect([second!.value!.held, reporter.lines.length > 0]).toEqual([true, true]);
  });
});
