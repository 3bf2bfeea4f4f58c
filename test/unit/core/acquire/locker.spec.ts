import { LockLostError, LockNotHeldError } from '../../../../lib/core/lock.errors.js';
import { lockOptions, startLocker } from '../../../support/core/core-parts.js';
import { settled } from '../../../support/core/fake-clock.js';
import { busy, gone, released } from '../../../support/core/fake-store.js';
import { gate } from '../../../support/waiting/gate.js';
import { outcomeOf } from '../../../support/waiting/outcome.js';

const NOTHING = { locks: 0, waiting: 0, releasing: 0, timers: 0 };

describe('a revocation', () => {
  it('does not affect a waiting call, or one that has released', async () => {
    const { store, locker } = startLocker();
    const lock = await locker.acquire(locker.request(['k'], lockOptions()));
    await lock.release();
    store.onAcquire = () => busy({ ahead: 1 });
    const waiting = outcomeOf(locker.acquire(locker.request(['k'], lockOptions())));
    await settled();
    for (const { request } of store.acquires) store.listener!.onWakeUp(request.attempt, { kind: 'revoked' });
    await settled();
    expect([lock.lost, waiting, store.acquires.length]).toEqual([null, {}, 2]);
  });
});

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
  it('is followed by a renewal of all locks, which finds those that were revoked', async () => {
    const { clock, store, locker } = startLocker();
    const [kept, taken] = [
      await locker.acquire(locker.request(['a'], lockOptions())),
      await locker.acquire(locker.request(['b'], lockOptions())),
    ];
    const unrenewed = await locker.acquire(locker.request(['c'], lockOptions({ renew: false })));
    store.onRenew = (requests) =>
      requests.map(({ key }) => (key === 'b' ? gone(102, true) : { outcome: 'renewed', remainingMs: 3_000 }));
    store.listener!.onListening();
    await clock.advance(0);
    expect(store.renews).toEqual([]);
    store.listener!.onMessagesMissed();
    await clock.advance(0);
    expect([kept.held, taken.lost?.reason, unrenewed.held]).toEqual([true, 'revoked', true]);
    expect(store.renews.map(({ request }) => request.map(({ key }) => key).toSorted())).toEqual([['a', 'b']]);
  });

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

describe('an extension in the locker', () => {
  it('rejects with the loss that it finds, or because the lock was released meanwhile', async () => {
    const { store, locker } = startLocker();
    const [lost, left] = [
      await locker.acquire(locker.request(['a'], lockOptions())),
      await locker.acquire(locker.request(['b'], lockOptions())),
    ];
    store.onRenew = null;
    const outcomes = [outcomeOf(lost.extend(5_000)), outcomeOf(left.extend(5_000))];
    store.renews[0]!.reply([gone(999)]);
    await left.release();
    store.renews[1]!.reply([gone(0)]);
    await settled();
    expect(outcomes.map(({ error }) => error)).toEqual([expect.any(LockLostError), expect.any(LockNotHeldError)]);
    expect(left.lost).toBeNull();
  });
});

describe('a release', () => {
  it('keeps its caller waiting for a second at most, and goes on in the background', async () => {
    const { clock, store, locker } = startLocker();
    const lock = await locker.acquire(locker.request(['k'], lockOptions()));
    store.onRelease = null;
    let done = false;
    void lock.release().then(() => (done = true));
    await clock.advance(999);
    expect([done, locker.live.releasing]).toEqual([false, 1]);
    await clock.advance(1);
    await settled();
    expect([done, locker.live.releasing]).toEqual([true, 1]);
    store.releases[0]!.reply(released());
    await settled();
    expect(locker.live).toEqual(NOTHING);
  });

  it('does not keep a caller waiting whose lock was lost', async () => {
    const { store, locker } = startLocker();
    const lock = await locker.acquire(locker.request(['k'], lockOptions()));
    store.onRelease = null;
    lock.onLost(() => undefined);
    store.listener!.onWakeUp(store.acquires[0]!.request.attempt, { kind: 'revoked' });
    await lock.release();
    expect(store.releases).toHaveLength(1);
  });
});

describe('a shutdown', () => {
  it('releases holds with nested calls inside, too', async () => {
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

  it('waits for the holder of a lock that was granted in the same turn', async () => {
    const { store, locker } = startLocker();
    const seen: string[] = [];
    locker.events.on('acquired', () => void seen.push('acquired')).on('released', () => void seen.push('released'));
    store.onAcquire = () => busy();
    const outcome = outcomeOf(locker.acquire(locker.request(['k'], lockOptions())));
    await settled();
    const { attempt } = store.acquires[0]!.request;
    const grant = { kind: 'granted', fencingToken: 5, remainingMs: 3_000, serverTimeMs: 0 } as const;
    store.listener!.onWakeUp(attempt, grant);
    const closing = outcomeOf(locker.close(1_000).then(() => 'closed'));
    await settled();
    expect([outcome.value?.held, closing.value]).toEqual([true, undefined]);
    await outcome.value!.release();
    await settled();
    expect([closing.value, store.givenBack, locker.live]).toEqual(['closed', ['k'], NOTHING]);
    expect(seen).toEqual(['acquired', 'released']);
  });

  it('does not wait for locks that were lost meanwhile', async () => {
    const { store, locker } = startLocker();
    await locker.acquire(locker.request(['k'], lockOptions()));
    let closed = false;
    void locker.close(60_000).then(() => (closed = true));
    store.listener!.onWakeUp(store.acquires[0]!.request.attempt, { kind: 'revoked' });
    await settled();
    expect(closed).toBe(true);
  });
});
