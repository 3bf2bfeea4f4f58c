import { NEVER, Observable, Subject, concatMap, firstValueFrom, of, range, take, throwError } from 'rxjs';
import { LockNotHeldError } from '../../../../lib/core/lock.errors.js';
import { lockedObservable } from '../../../../lib/interceptor/streams/stream-observable.js';
import { finishStream } from '../../../../lib/interceptor/streams/stream-result.js';
import { ofOtherRxjs } from '../../../support/apps/other-rxjs.js';
import { FakeLock, SlowOpening, opening, settled } from './fake-stream-lock.js';

/** What a subscriber receives: values, `'complete'` and `['error', error]`. */
function watch(source: Observable<unknown>) {
  const told: unknown[] = [];
  const subscription = source.subscribe({
    next: (value) => told.push(value),
    error: (error: unknown) => told.push(['error', error]),
    complete: () => told.push('complete'),
  });
  return { told, subscription };
}

const boom = (): never => {
  throw new Error('business');
};

describe('a locked Observable', () => {
  it.each([
    ['an Observable', () => of(1, 2)],
    ['a promise of one', () => Promise.resolve(of(1, 2))],
    ['a list', () => [1, 2]],
    [
      'an async iterable',
      async function* () {
        yield* [1, 2];
      },
    ],
    ['an Observable of another copy of rxjs', () => ofOtherRxjs(1, 2)],
  ])('passes on the values of %s', async (_what, method) => {
    const lock = new FakeLock();
    const { told } = watch(lockedObservable(opening(lock), method));
    await settled();
    expect(told).toEqual([1, 2, 'complete']);
    expect([lock.ends, lock.listeners]).toEqual([['done'], 0]);
  });

  it.each([
    ['throws', boom],
    ['returns what is not a source', () => undefined],
    ['returns a source that errors', () => throwError(() => new Error('business'))],
    ['returns a promise that rejects', () => Promise.reject(new Error('business'))],
  ])('is released and errors when the method %s', async (_what, method) => {
    const lock = new FakeLock();
    const { told } = watch(lockedObservable(opening(lock), method));
    await settled();
    expect(told).toEqual([['error', expect.any(Error)]]);
    expect([lock.ends, lock.listeners]).toEqual([['failed'], 0]);
  });

  it.each([undefined, null, 0, 'text'])(
    'passes an error of %p unchanged, even if the lock was lost',
    async (thrown) => {
      const lock = new FakeLock();
      const method = () => throwError(() => thrown);
      lock.isLostAtEnd = true;
      const { told } = watch(lockedObservable(opening(lock), method));
      await settled();
      expect(told).toEqual([['error', thrown]]);
    },
  );
});

describe('a locked Observable that is unsubscribed', () => {
  it('is released once by take(1) of an endless source that emits synchronously', async () => {
    const lock = new FakeLock();
    const endless = range(0, Infinity);
    const value = await firstValueFrom(lockedObservable(opening(lock), () => endless).pipe(take(1)));
    await settled();
    expect([value, lock.ends, lock.listeners]).toEqual([0, ['done'], 0]);
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
    lock.isLostAtEnd = true;
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
    lock.isLostAtEnd = true;
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

describe('an awaited result', () => {
  it.each([
    undefined,
    null,
    1,
    'text',
    [1],
    { pipe: 1 },
    { subscribe: () => {} },
    () => {},
    new Map(),
    (function* () {})(),
  ])('%p is not a stream, and its lock is not touched', (result) => {
    const lock = new FakeLock();
    expect([finishStream(lock, result), lock.ends]).toEqual([null, []]);
  });
});

describe('an awaited Observable', () => {
  it('errors without subscribing to its source when its lock was lost before', async () => {
    const lock = new FakeLock();
    const source = new Subject();
    const result = finishStream(lock, source) as Observable<unknown>;
    const lost = lock.lose();
    const { told } = watch(result);
    await settled();
    expect([told, source.observed, lock.ends]).toEqual([[['error', lost]], false, ['failed']]);
  });

  it('can be subscribed once', async () => {
    const lock = new FakeLock();
    const result = finishStream(lock, NEVER) as Observable<unknown>;
    const first = watch(result);
    const second = watch(result);
    expect([first.told, second.told]).toEqual([[], [['error', expect.any(LockNotHeldError)]]]);
    expect(lock.ends).toEqual([]);
    first.subscription.unsubscribe();
    expect(watch(result).told).toEqual([['error', expect.any(LockNotHeldError)]]);
    expect(lock.ends).toEqual(['done']);
  });
});
