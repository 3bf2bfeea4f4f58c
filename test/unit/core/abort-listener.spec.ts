import { getEventListeners } from 'node:events';
import { onAbort, withEither } from '../../../lib/core/abort-listener.js';
import { lockOptions, startLocker } from '../../support/core/core-parts.js';
import { settled } from '../../support/core/fake-clock.js';
import { busy } from '../../support/core/fake-store.js';
import { outcomeOf } from '../../support/waiting/outcome.js';

const listenersOf = (signal: AbortSignal): number => getEventListeners(signal, 'abort').length;

describe('listening to an AbortSignal', () => {
  it('calls each callback once, and none that was stopped', () => {
    const controller = new AbortController();
    const told: string[] = [];
    const stops = ['a', 'b', 'c'].map((name) => onAbort(controller.signal, () => told.push(name)));
    stops[1]!();
    controller.abort();
    controller.abort();
    expect(told).toEqual(['a', 'c']);
  });
});

describe('a hundred acquisitions with one signal', () => {
  it('add one listener, so that Node warns of no leak, are all cancelled by it, and leave none', async () => {
    const { store, locker, enter } = startLocker();
    const controller = new AbortController();
    const { signal } = controller;
    const granted = await enter('granted', { signal });
    expect(listenersOf(signal)).toBe(0);
    await granted.release();
    store.onAcquire = () => busy();
    const outcomes = Array.from({ length: 100 }, (_, i) =>
      outcomeOf(locker.acquire(locker.request([`k${i}`], lockOptions({ signal })))),
    );
    await settled();
    expect([listenersOf(signal), locker.live.waiting]).toEqual([1, 100]);
    const reason = new Error('the user went away');
    controller.abort(reason);
    await settled();
    expect(outcomes.map(({ error }) => error)).toEqual(Array.from({ length: 100 }, () => reason));
    expect([listenersOf(signal), locker.live.waiting, locker.timers.size]).toEqual([0, 0, 0]);
  });
});

/** What a signal retains: its listeners, and its dependent signals in Node. */
function keptBy(signal: AbortSignal): number {
  const own = signal as unknown as Record<symbol, { readonly size?: number } | undefined>;
  const sizes = Object.getOwnPropertySymbols(signal).map((name) => own[name]?.size ?? 0);
  return listenersOf(signal) + sizes.reduce((sum, size) => sum + size, 0);
}

/** A call with a long-lived signal in its options, and its own signal. */
function start() {
  const { store, locker, enter } = startLocker();
  const [ofOptions, ofCall] = [new AbortController(), new AbortController()];
  const call = () => withEither(ofOptions.signal, ofCall.signal, (signal) => enter('feed', { signal }));
  return { store, locker, call, ofOptions, ofCall };
}

describe('a call with a signal in its options and its own signal', () => {
  it('leaves no listener on either when it has its lock', async () => {
    const { call, locker, ofOptions, ofCall } = start();
    const before = [keptBy(ofOptions.signal), keptBy(ofCall.signal)];
    for (let i = 0; i < 10; i += 1) await (await call()).release();
    expect(locker.live.locks).toBe(0);
    expect([keptBy(ofOptions.signal), keptBy(ofCall.signal)]).toEqual(before);
  });

  it.each(['ofOptions', 'ofCall'] as const)('is cancelled by the signal %s, with its reason', async (which) => {
    const { store, locker, call, ...controllers } = start();
    store.onAcquire = () => busy();
    const outcome = outcomeOf(call());
    await settled();
    expect([outcome, locker.live.waiting]).toEqual([{}, 1]);
    const reason = new Error('enough');
    controllers[which].abort(reason);
    await settled();
    expect(outcome).toEqual({ error: reason });
    expect(Object.values(controllers).map(({ signal }) => listenersOf(signal))).toEqual([0, 0]);
  });

  it.each(['ofOptions', 'ofCall'] as const)('sends no request when the signal %s is already aborted', async (which) => {
    const { store, call, ...controllers } = start();
    const reason = new Error('enough');
    controllers[which].abort(reason);
    const outcome = outcomeOf(call());
    await settled();
    expect([outcome, store.asked]).toEqual([{ error: reason }, []]);
  });
});
