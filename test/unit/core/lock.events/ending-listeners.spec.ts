import { type Hold } from '../../../../lib/core/hold/hold.js';
import { startLocker } from '../../../support/core/core-parts.js';
import { settled } from '../../../support/core/fake-clock.js';
import { busy } from '../../../support/core/fake-store.js';
import { outcomeOf } from '../../../support/waiting/outcome.js';

const NOTHING = { locks: 0, waiting: 0, releasing: 0, timers: 0 };

describe('a listener of `waiting` that aborts the wait', () => {
  it('leaves no timer and no place in the queue', async () => {
    const { clock, store, locker, enter } = startLocker();
    const [controller, reason] = [new AbortController(), new Error('not now')];
    locker.events.on('waiting', () => controller.abort(reason));
    store.onAcquire = () => busy({ ahead: 2 });
    const outcome = outcomeOf(enter('k', { signal: controller.signal }));
    await settled();
    expect([outcome.error, store.givenBack, locker.live]).toEqual([reason, ['k'], NOTHING]);
    await clock.advance(60_000);
    expect([store.asked, clock.timers]).toEqual([['k'], 0]);
  });

  it('sends no request for a wake-up that came before the answer', async () => {
    const controller = new AbortController();
    const { store, locker, enter } = startLocker();
    locker.events.on('waiting', () => controller.abort());
    store.onAcquire = null;
    outcomeOf(enter('k', { signal: controller.signal }));
    locker.onListening();
    store.acquires[0]!.reply(busy());
    await settled();
    expect([store.asked, store.givenBack, locker.live]).toEqual([['k'], ['k'], NOTHING]);
  });
});

describe('a listener of renewals that releases the lock', () => {
  it.each(['renewed', 'renewFailed'] as const)('leaves no timer at `%s`', async (name) => {
    const { clock, store, locker, enter } = startLocker();
    if (name === 'renewFailed') {
      store.onRenew = (requests) => requests.map(() => ({ outcome: 'unknown', cause: new Error('down') }));
    }
    let lock!: Hold;
    locker.events.on(name, () => void lock.release());
    lock = await enter('k');
    await clock.advance(1_000);
    expect([lock.isReleased, lock.lost, store.givenBack, locker.live]).toEqual([true, null, ['k'], NOTHING]);
    await clock.advance(60_000);
    expect([store.renews.length, clock.timers]).toEqual([1, 0]);
  });

  it.each(['renewed', 'renewFailed'] as const)('leaves no timer at `%s` of an extension', async (name) => {
    const { store, locker, enter } = startLocker();
    if (name === 'renewFailed') store.onRenew = () => [{ outcome: 'unknown', cause: new Error('down') }];
    const lock = await enter('k');
    locker.events.on(name, () => void lock.release());
    await expect(lock.extend(60_000)).rejects.toMatchObject({ code: 'LOCK_NOT_HELD' });
    await settled();
    expect([store.givenBack, locker.live]).toEqual([['k'], NOTHING]);
  });
});
