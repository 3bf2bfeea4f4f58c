import { Turn, type TurnContext } from '../../../../../lib/core/acquire/turn.js';
import { type StoreHold } from '../../../../../lib/core/hold/store-hold.js';
import { TURN_MS, WATCH_HANDLES_AFTER_MS } from '../../../../../lib/core/timing.js';
import { FakeClock, settled } from '../../../../support/core/fake-clock.js';
import { busy } from '../../../../support/core/fake-store.js';
import { startTurns } from './start-turns.js';

describe('a lock that is held for longer than its turn', () => {
  it('has no turn any more, so that many such locks take no more memory', () => {
    const clock = new FakeClock();
    const turns = new Map<string, Turn>();
    const turn = new Turn({ clock } as Partial<TurnContext> as TurnContext, 'k', 1_000, turns);
    turns.set('k', turn);
    turn.onGranted({ deadline: 1_000, sentAt: 0 } as StoreHold, 0, false);
    clock.jump(TURN_MS - 1);
    turn.closeIfOver();
    expect(turns.size).toBe(1);
    clock.jump(1);
    turn.closeIfOver();
    expect(turns.size).toBe(0);
  });

  it('keeps the calls that wait for it in their order', async () => {
    const { clock, locker, store, hold, calls, finish } = startTurns();
    const answer = store.onAcquire!;
    const first = locker.handles.handOut(await hold());
    store.onAcquire = () => busy();
    const early = calls(2);
    await clock.advance(2 * WATCH_HANDLES_AFTER_MS);
    const [late] = calls(1);
    await settled();
    store.onAcquire = answer;
    await first.release();
    store.listener!.onListening();
    await settled();
    expect([early[0]!.value?.held, early[1]!.value, late!.value]).toEqual([true, undefined, undefined]);
    await early[0]!.value!.release();
    await settled();
    expect([early[1]!.value?.held, late!.value]).toEqual([true, undefined]);
    await finish();
  });

  it('is not handed on to a call that comes later: it asks the store', async () => {
    const { clock, locker, store, hold, call, sent, local, finish } = startTurns();
    const first = locker.handles.handOut(await hold());
    await clock.advance(WATCH_HANDLES_AFTER_MS);
    const answer = store.onAcquire!;
    store.onAcquire = () => busy();
    const second = call();
    await settled();
    await first.release();
    store.onAcquire = answer;
    store.listener!.onListening();
    await settled();
    expect([second.value?.held, local(), sent()[1]]).toEqual([true, [false, false], 1]);
    await finish();
  });
});
