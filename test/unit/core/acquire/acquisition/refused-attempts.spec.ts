import { startLocker } from '../../../../support/core/core-parts.js';
import { settled } from '../../../../support/core/fake-clock.js';
import { granted } from '../../../../support/core/fake-store.js';

const NOTHING = { locks: 0, waiting: 0, releasing: 0, timers: 0 };

describe('an attempt for several keys that was released meanwhile', () => {
  it('is given back for all keys, and a new one is granted', async () => {
    const { store, locker, enter } = startLocker();
    store.onAcquire = null;
    const entering = enter(['b', 'a']);
    await settled();
    const first = store.acquires[0]!.request.attempt;
    store.acquires[0]!.reply({ outcome: 'refused', reason: 'released' });
    await settled();
    expect(store.releases.map(({ request }) => [request.key, request.attempt])).toEqual([
      ['a', first],
      ['b', first],
    ]);
    expect(store.asked).toEqual(['a+b', 'a+b']);
    const { attempt } = store.acquires[1]!.request;
    expect(attempt).not.toBe(first);
    store.acquires[1]!.reply(granted(3_000, 11, 12));
    const lock = await entering;
    expect([lock.keys, lock.fencingTokens, lock.held]).toEqual([['b', 'a'], [12, 11], true]);
    await lock.release();
    expect(store.releases.slice(2).map(({ request }) => request.attempt)).toEqual([attempt, attempt]);
    expect(locker.live).toEqual(NOTHING);
  });
});
