import { describe, expect, it } from '@jest/globals';
import { EMPTY, NEVER, Observable, Subject, concatMap, firstValueFrom, of, range, take } from 'rxjs';
import { lockedObservable } from '../../../../../lib/interceptor/streams/stream-observable.js';
import { FakeLock, SlowOpening, opening, settled } from '../fake-stream-lock.js';
import { watch } from '../watch.js';

const boom = (): never => {
  throw new Error('business');
};

describe('a locked Observable that is unsubscribed', () => {
  it('stops its source and is released', async () => {
    const lock = new FakeLock();
    const source = new Subject<number>();
    const { told, subscription } = watch(lockedObservable(opening(lock), () => source));
    await settled();
    source.next(1);
    subscription.unsubscribe();
    expect([source.observed, lock.ends, lock.listeners]).toEqual([false, ['done'], 0]);
    await settled();
    expect(told).toEqual([1]);
  });

  it('by take(1) of a source without end, which emits synchronously, is released once', async () => {
    const lock = new FakeLock();
    const endless = range(0, Infinity);
    const value = await firstValueFrom(lockedObservable(opening(lock), () => endless).pipe(take(1)));
    await settled();
    expect([value, lock.ends, lock.listeners]).toEqual([0, ['done'], 0]);
  });

  it('by the method itself does not subscribe to its source', async () => {
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

  it('while it waits gives up the waiting', async () => {
    const slow = new SlowOpening();
    const { told, subscription } = watch(lockedObservable(slow.open, boom));
    await settled();
    expect(slow.signal?.aborted).toBe(false);
    subscription.unsubscribe();
    expect(slow.signal?.aborted).toBe(true);
    await settled();
    expect(told).toEqual([]);
  });

  it('while it waits releases a lock that comes nevertheless, without running the method', async () => {
    const slow = new SlowOpening(false);
    const lock = new FakeLock();
    const { told, subscription } = watch(lockedObservable(slow.open, boom));
    await settled();
    subscription.unsubscribe();
    slow.grant(lock);
    await settled();
    expect([told, lock.ends, lock.listeners]).toEqual([[], ['failed'], 0]);
  });

  it('while it is released is told nothing more', async () => {
    const lock = new FakeLock();
    let released = (): void => {};
    lock.releasing = new Promise((resolve) => (released = resolve));
    const { told, subscription } = watch(lockedObservable(opening(lock), () => EMPTY));
    await settled();
    subscription.unsubscribe();
    released();
    await settled();
    expect([told, lock.ends]).toEqual([[], ['done']]);
  });

  it('after its lock was lost rejects nowhere', async () => {
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
  it('in mid-stream stops its source and errors at once, before anything is released', async () => {
    const lock = new FakeLock();
    lock.releasing = new Promise(() => {});
    const source = new Subject<number>();
    const { told } = watch(lockedObservable(opening(lock), () => source));
    await settled();
    source.next(1);
    const lost = lock.lose();
    expect(told).toEqual([1, ['error', lost]]);
    expect([source.observed, lock.ends, lock.listeners]).toEqual([false, ['failed'], 0]);
  });

  it('while it emits synchronously stops there', async () => {
    const lock = new FakeLock();
    const method = () => range(0, Infinity).pipe(concatMap((n) => (n === 2 ? (lock.lose(), of(n)) : of(n))));
    const { told } = watch(lockedObservable(opening(lock), method));
    await settled();
    expect(told).toEqual([0, 1, ['error', lock.signal.reason]]);
    expect(lock.ends).toEqual(['failed']);
  });

  it('before the method was called errors without calling it', async () => {
    const lock = new FakeLock();
    const lost = lock.lose();
    const { told } = watch(lockedObservable(opening(lock), boom));
    await settled();
    expect([told, lock.ends]).toEqual([[['error', lost]], ['failed']]);
  });

  it('at the release errors after its values in place of completing', async () => {
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
