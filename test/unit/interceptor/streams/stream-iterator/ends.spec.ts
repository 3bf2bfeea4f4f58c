import { EventEmitter, on } from 'node:events';
import { lockedAsyncIterable } from '../../../../../lib/interceptor/streams/stream-iterator.js';
import { FakeLock, SlowOpening, opening, settled } from '../fake-stream-lock.js';
import { rejection } from '../../../../support/waiting/rejection.js';

const DONE = { done: true, value: undefined };
const value = (of: unknown) => ({ done: false, value: of });

const boom = (): never => {
  throw new Error('business');
};

/** An iterator as somebody may write it by hand. */
const iterating = (parts: Partial<AsyncIterator<unknown>>) => () => ({
  [Symbol.asyncIterator]: () => ({ next: boom, ...parts }),
});

describe('a locked async iterable that is ended by its consumer', () => {
  it('stays locked when the method yields once more', async () => {
    const lock = new FakeLock();
    async function* method() {
      try {
        yield 1;
      } finally {
        yield 2;
      }
    }
    const iterator = lockedAsyncIterable(opening(lock), method);
    await iterator.next();
    expect([await iterator.return('x'), lock.ends]).toEqual([value(2), []]);
    expect([await iterator.next(), lock.ends]).toEqual([{ done: true, value: 'x' }, ['done']]);
  });

  it('passes the error of throw() to the method, and is released when that does not catch it', async () => {
    const lock = new FakeLock();
    const caught: unknown[] = [];
    async function* method() {
      try {
        yield 1;
      } catch (error) {
        caught.push(error);
      }
      yield 2;
    }
    const iterator = lockedAsyncIterable(opening(lock), method);
    await iterator.next();
    expect([await iterator.throw('a'), caught, lock.ends]).toEqual([value(2), ['a'], []]);
    expect([await rejection(iterator.throw('b')), lock.ends]).toEqual(['b', ['failed']]);
    expect(await rejection(iterator.throw('c'))).toBe('c');
  });

  it('is released when its iterator has neither return() nor throw()', async () => {
    const next = () => Promise.resolve(value(1));
    const locks = [new FakeLock(), new FakeLock()];
    const [first, second] = locks.map((lock) => lockedAsyncIterable(opening(lock), iterating({ next })));
    await first!.next();
    expect(await first!.return('x')).toEqual({ done: true, value: 'x' });
    await second!.next();
    expect(await rejection(second!.throw('y'))).toBe('y');
    expect(locks.map(({ ends }) => ends)).toEqual([['done'], ['failed']]);
  });

  it.each([
    ['return', (it: AsyncGenerator) => it.return('x'), { done: true, value: 'x' }],
    ['throw', (it: AsyncGenerator) => rejection(it.throw('x')), 'x'],
  ])('never acquires when it is ended by %s() before its start', async (_how, end, result) => {
    const open = opening();
    const iterator = lockedAsyncIterable(open, boom);
    expect(await end(iterator)).toEqual(result);
    expect([await iterator.next(), open.opened]).toEqual([DONE, 0]);
  });

  it('ends a pending next() at return(), and then is released', async () => {
    const lock = new FakeLock();
    const source = new EventEmitter();
    const iterator = lockedAsyncIterable(opening(lock), () => on(source, 'step'));
    const next = iterator.next();
    await settled();
    expect(await iterator.return('x')).toEqual(DONE);
    expect([await next, lock.ends, source.listenerCount('step')]).toEqual([DONE, ['done'], 0]);
  });

  const ENDS: [string, (iterator: AsyncGenerator) => Promise<unknown>][] = [
    ['return', (iterator) => iterator.return('x')],
    ['throw', (iterator) => iterator.throw(new Error('x'))],
  ];

  it.each(ENDS)('leaves pending work one more lease after %s(), and reports the loss', async (_how, end) => {
    const lock = new FakeLock();
    const iterator = lockedAsyncIterable(opening(lock), async function* () {
      yield await new Promise(() => {});
    });
    const calls = [rejection(iterator.next())];
    await settled();
    calls.push(rejection(end(iterator)));
    await settled();
    expect([lock.losing, lock.ends]).toEqual([1, []]);
    const lost = lock.lose();
    expect(await Promise.all(calls)).toEqual([lost, lost]);
    expect([lock.ends, lock.listeners]).toEqual([['failed'], 0]);
  });

  it.each(ENDS)('may clean up after %s() for as long as it takes', async (_how, end) => {
    const lock = new FakeLock();
    let cleanUp = (): void => {};
    const iterator = lockedAsyncIterable(opening(lock), async function* () {
      try {
        yield 1;
      } finally {
        await new Promise<void>((resolve) => (cleanUp = resolve));
      }
    });
    await iterator.next();
    const ended = end(iterator).catch(() => undefined);
    await settled();
    expect([lock.losing, lock.ends]).toEqual([0, []]);
    cleanUp();
    await ended;
    expect(lock.ends).toHaveLength(1);
  });

  it('keeps the lock while a next() is pending that return() did not end', async () => {
    const lock = new FakeLock();
    let finish = (_result: IteratorResult<unknown>): void => {};
    const next = () => new Promise<IteratorResult<unknown>>((resolve) => (finish = resolve));
    const method = iterating({ next, return: async () => DONE as IteratorResult<unknown> });
    const iterator = lockedAsyncIterable(opening(lock), method);
    const pending = iterator.next();
    await settled();
    const ended = iterator.return();
    await settled();
    expect(lock.ends).toEqual([]);
    finish(value(1));
    expect([await pending, await ended, lock.ends]).toEqual([value(1), DONE, ['done']]);
  });

  it('cancels the wait for its lock, and its pending calls are done', async () => {
    const slow = new SlowOpening();
    const iterator = lockedAsyncIterable(slow.open, boom);
    const calls = [iterator.next(), iterator.next()];
    await settled();
    expect(slow.signal?.aborted).toBe(false);
    calls.push(iterator.return('x'));
    expect(await Promise.all(calls)).toEqual([DONE, DONE, { done: true, value: 'x' }]);
  });

  it('releases a lock that is granted after it was ended', async () => {
    const slow = new SlowOpening(false);
    const lock = new FakeLock();
    let called = false;
    const iterator = lockedAsyncIterable(slow.open, () => (called = true));
    const calls = [iterator.next()];
    await settled();
    calls.push(iterator.return('x'));
    slow.grant(lock);
    expect(await Promise.all(calls)).toEqual([DONE, { done: true, value: 'x' }]);
    expect([called, lock.ends, lock.listeners]).toEqual([false, ['failed'], 0]);
  });
});
