import { NEVER, Observable, Subject } from 'rxjs';
import { LockNotHeldError } from '../../../../lib/core/lock.errors.js';
import { finishStream } from '../../../../lib/interceptor/streams/stream-result.js';
import { FakeLock, settled } from './fake-stream-lock.js';
import { watch } from './watch.js';
import { rejection } from '../../../support/waiting/rejection.js';

const DONE = { done: true, value: undefined };

async function* rows(): AsyncGenerator<number> {
  yield 1;
  yield 2;
}

const observableOf = (lock: FakeLock, result: unknown) => finishStream(lock, result) as Observable<unknown>;
const generatorOf = (lock: FakeLock, result: unknown) => finishStream(lock, result) as AsyncGenerator;

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
  it('holds the lock that was acquired, from before the first subscription until its end', async () => {
    const lock = new FakeLock();
    const source = new Subject();
    const result = observableOf(lock, source);
    expect(result).toBeInstanceOf(Observable);
    await settled();
    expect([source.observed, lock.ends]).toEqual([false, []]);
    const { told } = watch(result);
    source.next(1);
    expect([told, lock.ends, lock.listeners]).toEqual([[1], [], 1]);
    source.complete();
    await settled();
    expect([told, lock.ends, lock.listeners]).toEqual([[1, 'complete'], ['done'], 0]);
  });

  it('errors without subscribing to its source when its lock was lost before', async () => {
    const lock = new FakeLock();
    const source = new Subject();
    const result = observableOf(lock, source);
    const lost = lock.lose();
    const { told } = watch(result);
    await settled();
    expect([told, source.observed, lock.ends]).toEqual([[['error', lost]], false, ['failed']]);
  });

  it('can be subscribed once', async () => {
    const lock = new FakeLock();
    const result = observableOf(lock, NEVER);
    const first = watch(result);
    const second = watch(result);
    expect([first.told, second.told]).toEqual([[], [['error', expect.any(LockNotHeldError)]]]);
    expect(lock.ends).toEqual([]);
    first.subscription.unsubscribe();
    expect(watch(result).told).toEqual([['error', expect.any(LockNotHeldError)]]);
    expect(lock.ends).toEqual(['done']);
  });
});

describe('an awaited async iterable', () => {
  it('may be used as the generator that it was', async () => {
    const lock = new FakeLock();
    const result = generatorOf(lock, rows());
    expect(await result.next()).toEqual({ done: false, value: 1 });
    expect(await rejection(result.throw('business'))).toBe('business');
    expect([lock.ends, await result.next()]).toEqual([['failed'], DONE]);
  });

  it.each([
    ['return', (result: AsyncGenerator) => result.return(undefined)],
    ['asyncDispose', (result: AsyncGenerator) => result[Symbol.asyncDispose]()],
  ])('is released when it is ended by %s before its first step', async (_how, end) => {
    const lock = new FakeLock();
    const result = generatorOf(lock, rows());
    await end(result);
    expect([lock.ends, await result.next()]).toEqual([['done'], DONE]);
  });

  it('rejects, and is closed, when it loses its lock before its first step', async () => {
    const lock = new FakeLock();
    const inner = rows();
    const result = generatorOf(lock, inner);
    const lost = lock.lose();
    expect(await rejection(result.next())).toBe(lost);
    expect([lock.ends, await inner.next()]).toEqual([['failed'], DONE]);
  });

  it('can be iterated once, by an iterator that can itself be iterated', async () => {
    const lock = new FakeLock();
    const result = generatorOf(lock, rows());
    const iterator = result[Symbol.asyncIterator]();
    expect(iterator[Symbol.asyncIterator]()).toBe(iterator);
    const again = async () => {
      for await (const _ of result) return;
    };
    expect(await rejection(again())).toBeInstanceOf(LockNotHeldError);
    expect([await iterator.next(), lock.ends]).toEqual([{ done: false, value: 1 }, []]);
  });
});
