import { getEventListeners } from 'node:events';
import { onAbort } from '../../../lib/core/abort-listener.js';
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
