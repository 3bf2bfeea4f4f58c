import { NEVER, Observable, Subject, concatMap, firstValueFrom, of, range, take } from 'rxjs';
import { lockedObservable } from '../../../../../lib/interceptor/streams/stream-observable.js';
import { FakeLock, SlowOpening, opening, settled } from '../fake-stream-lock.js';
import { watch } from '../watch.js';

const boom = (): never => {
  throw new Error('business');
};

describe('a locked Observable that is unsubscribed', () => {
  it('is released once by take(1) of an endless source that emits synchronously', async () => {
    const lock = new FakeLock();
    const endless = range(0, Infinity);
    const value = await firstValueFrom(lockedObservable(opening(lock), () => endless).pipe(take(1)));
    await settled();
    expect([value, lock.ends, lock.listeners]).toEqual([0, ['done'], 0]);
  });

  it('does not subscribe to its source when the method itself unsubscribes', async () => {
    const lock = new FakeLock();
    const source = new Subject();
    const watched = watch(
      lockedObservable(opening(lock), () => {
        watched.subscription.unsubscribe();
        return source;
      }),
    );
    await settled();
    expect([source.observed, lock.ends]).toEqual([false, ['done']]);
  });

  it('cancels its wait for the lock', async () => {
    const slow = new SlowOpening();
    const { told, subscription } = watch(lockedObservable(slow.open, boom));
    await settled();
    expect(slow.signal?.aborted).toBe(false);
    subscription.unsubscribe();
    expect(slow.signal?.aborted).toBe(true);
    await settled();
    expect(told).toEqual([]);
  });

  it('releases a lock that is granted nevertheless, without running the method', async () => {
    const slow = new SlowOpening(false);
    const lock = new FakeLock();
    const { told, subscription } = watch(lockedObservable(slow.open, boom));
    await settled();
    subscription.unsubscribe();
    slow.grant(lock);
    await settled();
    expect([told, lock.ends, lock.listeners]).toEqual([[], ['failed'], 0]);
  });

  it('causes no rejection after its lock was lost', async () => {
    const lock = new FakeLock();
    const { subscription } = watch(lockedObservable(opening(lock), () => NEVER));
    await settled();
    const ending = lock.end.bind(lock);
    lock.end = (outcome) => (lock.lose(), ending(outcome));
    subscription.unsubscribe();
    await settled();
    expect(lock.ends).toEqual(['done']);
  });
});

describe('a locked Observable that loses its lock', () => {
  it('stops at once when it loses the lock while it emits synchronously', async () => {
    const lock = new FakeLock();
    const method = () => range(0, Infinity).pipe(concatMap((n) => (n === 2 ? (lock.lose(), of(n)) : of(n))));
    const { told } = watch(lockedObservable(opening(lock), method));
    await settled();
    expect(told).toEqual([0, 1, ['error', lock.signal.reason]]);
    expect(lock.ends).toEqual(['failed']);
  });

  it('errors without calling the method when it is lost before', async () => {
    const lock = new FakeLock();
    const lost = lock.lose();
    const { told } = watch(lockedObservable(opening(lock), boom));
    await settled();
    expect([told, lock.ends]).toEqual([[['error', lost]], ['failed']]);
  });

  it('errors after its values instead of completing when the release finds the loss', async () => {
    const lock = new FakeLock();
    const ending = lock.end.bind(lock);
    lock.end = (outcome) => (lock.lose(), ending(outcome));
    const { told } = watch(lockedObservable(opening(lock), () => of(1)));
    await settled();
    expect([told, lock.ends]).toEqual([[1, ['error', lock.signal.reason]], ['done']]);
  });

  it('is released when the teardown of its source throws', async () => {
    const lock = new FakeLock();
    const { told } = watch(lockedObservable(opening(lock), () => new Observable(() => boom)));
    await settled();
    const lost = lock.lose();
    expect([told, lock.ends]).toEqual([[['error', lost]], ['failed']]);
  });
});
