import { LockLostError } from '../../../../lib/core/lock.errors.js';
import { lockOptions, startLocker } from '../../../support/core/core-parts.js';
import { settled } from '../../../support/core/fake-clock.js';
import { busy, gone } from '../../../support/core/fake-store.js';
import { gate } from '../../../support/waiting/gate.js';
import { outcomeOf } from '../../../support/waiting/outcome.js';

describe('a gap in the messages of the store', () => {
  it('makes each waiting call send its request once', async () => {
    const { store, locker } = startLocker();
    store.onAcquire = () => busy({ ahead: 1 });
    for (const key of ['a', 'b']) outcomeOf(locker.acquire(locker.request([key], lockOptions())));
    await settled();
    store.listener!.onListening();
    await settled();
    expect(store.asked).toEqual(['a', 'b', 'a', 'b']);
    store.listener!.onMessagesMissed();
    await settled();
    expect(store.asked).toEqual(['a', 'b', 'a', 'b', 'a', 'b']);
  });
});

describe('a gap in the messages of the store, for holders,', () => {
  it('is followed by another renewal when one was in flight', async () => {
    const { clock, store, locker } = startLocker();
    const lock = await locker.acquire(locker.request(['k'], lockOptions()));
    store.onRenew = null;
    await clock.advance(1_100);
    clock.jump(10);
    store.listener!.onListening();
    store.listener!.onMessagesMissed();
    store.renews[0]!.reply([{ outcome: 'renewed', remainingMs: 3_000 }]);
    await clock.advance(0);
    expect(store.renews).toHaveLength(2);
    store.renews[1]!.reply([gone(100, true)]);
    await settled();
    expect(lock.lost).toMatchObject({ reason: 'revoked' });
  });
});

describe('a shutdown', () => {
  it('also releases holds with nested calls inside', async () => {
    const { clock, store, under, locker } = startLocker();
    const { opened, open } = gate();
    const running = outcomeOf(under('k', () => under('k', () => opened)));
    await settled();
    const closing = locker.close(2_000);
    await clock.advance(3_000);
    await closing;
    expect(store.givenBack).toEqual(['k']);
    open();
    await settled();
    expect(running.error).toBeInstanceOf(LockLostError);
  });
});
