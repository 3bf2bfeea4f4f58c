import { LockBusyError } from '../../../../../lib/core/lock.errors.js';
import { lockedAsyncIterable } from '../../../../../lib/interceptor/streams/stream-iterator.js';
import { FakeLock, holder, opening, settled } from '../fake-stream-lock.js';
import { rejection } from '../../../../support/waiting/rejection.js';

const DONE = { done: true, value: undefined };
const value = (of: unknown) => ({ done: false, value: of });

async function* rows(): AsyncGenerator<number, string, unknown> {
  yield 1;
  yield 2;
  return 'end';
}

const boom = (): never => {
  throw new Error('business');
};

/** An iterator as somebody may write it by hand. */
const iterating = (parts: Partial<AsyncIterator<unknown>>) => () => ({
  [Symbol.asyncIterator]: () => ({ next: boom, ...parts }),
});

describe('a locked async iterable', () => {
  it('runs every step of the method as the holder, and none of its consumer', async () => {
    const lock = new FakeLock();
    const seen: unknown[] = [];
    async function* method() {
      try {
        seen.push(holder());
        yield;
        seen.push(holder());
        await settled();
        seen.push(holder());
        yield;
      } finally {
        seen.push(holder());
      }
    }
    let count = 0;
    for await (const _ of lockedAsyncIterable(opening(lock), method)) {
      expect(holder()).toBeUndefined();
      count += 1;
      if (count === 2) break;
    }
    expect(seen).toEqual([lock, lock, lock, lock]);
  });

  it('passes the argument of next() to the method', async () => {
    async function* echo(): AsyncGenerator<unknown, void, unknown> {
      let given: unknown = 'first';
      for (;;) given = yield given;
    }
    const iterator = lockedAsyncIterable(opening(new FakeLock()), echo);
    await iterator.next('ignored');
    expect(await iterator.next('a')).toEqual(value('a'));
  });

  it('passes on concurrent calls in their order, as without a lock, and is released when all have ended', async () => {
    const lock = new FakeLock();
    const open = opening(lock);
    const answers: ((result: IteratorResult<unknown>) => void)[] = [];
    const next = () => new Promise<IteratorResult<unknown>>((resolve) => void answers.push(resolve));
    const iterator = lockedAsyncIterable(open, iterating({ next }));
    const calls = [iterator.next(), iterator.next(), iterator.next()];
    await settled();
    expect(answers).toHaveLength(3);
    answers[2]!({ done: true, value: 3 });
    answers[0]!({ value: 1 });
    await settled();
    expect(lock.ends).toEqual([]);
    answers[1]!({ value: 2 });
    expect(await Promise.all(calls)).toEqual([{ value: 1 }, { value: 2 }, { done: true, value: 3 }]);
    expect([open.opened, lock.ends, await iterator.next()]).toEqual([1, ['done'], DONE]);
  });

  it('serves concurrent calls of an async generator one after the other', async () => {
    let running = 0;
    async function* method() {
      for (let n = 1; n <= 2; n += 1) {
        expect((running += 1)).toBe(1);
        await settled();
        running -= 1;
        yield n;
      }
    }
    const iterator = lockedAsyncIterable(opening(new FakeLock()), method);
    const calls = [iterator.next(), iterator.next(), iterator.next(), iterator.next()];
    expect(await Promise.all(calls)).toEqual([value(1), value(2), DONE, DONE]);
  });

  it('serves a return() after the calls before it', async () => {
    const iterator = lockedAsyncIterable(opening(new FakeLock()), rows);
    await iterator.next();
    const calls = [iterator.next(), iterator.return('x'), iterator.next()];
    expect(await Promise.all(calls)).toEqual([value(2), { done: true, value: 'x' }, DONE]);
  });

  it.each([
    ['throws when it is called', boom],
    ['returns what is no iterable', () => undefined],
    ['gives an iterator that throws', iterating({})],
    ['gives an iterator that rejects', iterating({ next: () => Promise.reject(new Error('business')) })],
    ['gives an iterator whose result is no object', iterating({ next: () => Promise.resolve(null as never) })],
  ])('is released and rejects when the method %s', async (_what, method) => {
    const lock = new FakeLock();
    const iterator = lockedAsyncIterable(opening(lock), method);
    expect(await rejection(iterator.next())).toBeInstanceOf(Error);
    expect([lock.ends, lock.listeners]).toEqual([['failed'], 0]);
    expect(await iterator.next()).toEqual(DONE);
  });

  it.each([undefined, null, 0, 'text'])('passes an error of %p unchanged', async (thrown) => {
    const lock = new FakeLock();
    const ending = lock.end.bind(lock);
    lock.end = (outcome) => (lock.lose(), ending(outcome));
    const next = () => Promise.reject(thrown);
    expect(await rejection(lockedAsyncIterable(opening(lock), iterating({ next })).next())).toBe(thrown);
  });

  it('rejects when acquiring does, and then has ended', async () => {
    const open = opening(new LockBusyError('busy'));
    const iterator = lockedAsyncIterable(open, boom);
    expect(await rejection(iterator.next())).toBeInstanceOf(LockBusyError);
    expect([await iterator.next(), open.opened]).toEqual([DONE, 1]);
  });
});
