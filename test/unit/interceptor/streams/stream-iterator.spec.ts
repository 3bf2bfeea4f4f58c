import { EventEmitter, on } from 'node:events';
import { LockNotHeldError } from '../../../../lib/core/lock.errors.js';
import { lockedAsyncIterable } from '../../../../lib/interceptor/streams/stream-iterator.js';
import { finishStream } from '../../../../lib/interceptor/streams/stream-result.js';
import { collectGarbage } from '../../../support/waiting/collect-garbage.js';
import { rejection } from '../../../support/waiting/rejection.js';
import { FakeLock, SlowOpening, holder, opening, settled } from './fake-stream-lock.js';

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

/** An iterator that is written by hand. */
const iterating = (parts: Partial<AsyncIterator<unknown>>) => () => ({
  [Symbol.asyncIterator]: () => ({ next: boom, ...parts }),
});

describe('a locked async iterable', () => {
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

  it.each([
    ['throws when it is called', boom],
    ['returns what is not an iterable', () => undefined],
    ['returns an iterator that throws', iterating({})],
    ['returns an iterator that rejects', iterating({ next: () => Promise.reject(new Error('business')) })],
    ['returns an iterator whose result is not an object', iterating({ next: () => Promise.resolve(null as never) })],
  ])('is released and rejects when the method %s', async (_what, method) => {
    const lock = new FakeLock();
    const iterator = lockedAsyncIterable(opening(lock), method);
    expect(await rejection(iterator.next())).toBeInstanceOf(Error);
    expect([lock.ends, lock.listeners]).toEqual([['failed'], 0]);
    expect(await iterator.next()).toEqual(DONE);
  });

  it.each([undefined, null, 0, 'text'])('passes an error of %p unchanged', async (thrown) => {
    const lock = new FakeLock();
    lock.isLostAtEnd = true;
    const next = () => Promise.reject(thrown);
    expect(await rejection(lockedAsyncIterable(opening(lock), iterating({ next })).next())).toBe(thrown);
  });
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

  it.each(ENDS)('may clean up after %s() for any time', async (_how, end) => {
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

describe('a locked async iterable that loses its lock', () => {
  /** A method that hangs at its second step until it is resumed. */
  function hanging() {
    const seen: unknown[] = [];
    let resume = (): void => {};
    async function* method() {
      try {
        yield 1;
        await new Promise<void>((resolve) => (resume = resolve));
        yield 2;
        seen.push('continued');
      } finally {
        seen.push(holder());
      }
    }
    return { seen, method, resume: () => resume() };
  }

  it('rejects the next call when it is lost between two, and closes the method', async () => {
    const lock = new FakeLock();
    const { seen, method } = hanging();
    const iterator = lockedAsyncIterable(opening(lock), method);
    await iterator.next();
    expect(lock.listeners).toBe(0);
    const lost = lock.lose();
    expect(await rejection(iterator.next())).toBe(lost);
    await settled();
    expect([seen, lock.ends, lock.listeners]).toEqual([[lock], ['failed'], 0]);
    expect(await iterator.next()).toEqual(DONE);
  });

  it('copes with an iterator that cannot be closed, fails to close, or fails later', async () => {
    const parts = [{}, { return: () => { throw new Error('close'); } }, { return: () => Promise.reject(new Error('close')) }]; // prettier-ignore
    for (const part of parts) {
      const lock = new FakeLock();
      let fail = (_error: Error): void => {};
      const next = () => new Promise<never>((_resolve, reject) => (fail = reject));
      const iterator = lockedAsyncIterable(opening(lock), () => ({
        [Symbol.asyncIterator]: () => ({ next, ...part }),
      }));
      const pending = rejection(iterator.next());
      await settled();
      const lost = lock.lose();
      expect(await pending).toBe(lost);
      fail(new Error('later'));
      await settled();
      expect(lock.ends).toEqual(['failed']);
    }
  });

  it.each([
    ['next', (it: AsyncGenerator) => it.next()],
    ['return', (it: AsyncGenerator) => it.return('x')],
  ])('rejects the %s() that ended it when the release finds the loss', async (_how, end) => {
    const lock = new FakeLock();
    const iterator = lockedAsyncIterable(opening(lock), rows);
    await iterator.next();
    await iterator.next();
    lock.isLostAtEnd = true;
    const error = await rejection(end(iterator));
    expect([error, lock.ends]).toEqual([lock.signal.reason, ['done']]);
  });
});

describe('a locked async iterable that is dropped', () => {
  async function isCollected(ref: WeakRef<object>, turns: number): Promise<boolean> {
    for (let turn = 0; turn < turns && ref.deref(); turn += 1) {
      await collectGarbage();
    }
    return ref.deref() === undefined;
  }

  const started = {
    'a call': (lock: FakeLock) => lockedAsyncIterable(opening(lock), rows),
    'a result': (lock: FakeLock) => finishStream(lock, rows()) as AsyncGenerator,
  };

  it.each(Object.entries(started))(
    'releases its lock though its signal is still referenced: %s',
    async (_what, start) => {
      const controller = new AbortController();
      let iterator: AsyncGenerator | undefined;
      const begin = async (): Promise<WeakRef<object>> => {
        const lock = new FakeLock(controller);
        iterator = start(lock);
        await iterator.next();
        return new WeakRef(lock);
      };
      const ref = await begin();
      expect(await isCollected(ref, 3)).toBe(false);
      expect(await iterator!.next()).toEqual({ done: false, value: 2 });
      iterator = undefined;
      expect(await isCollected(ref, 20)).toBe(true);
      expect(controller.signal.aborted).toBe(false);
    },
  );
});

describe('an awaited async iterable', () => {
  it.each([
    ['return', (result: AsyncGenerator) => result.return(undefined)],
    ['asyncDispose', (result: AsyncGenerator) => result[Symbol.asyncDispose]()],
  ])('is released when it is ended by %s before its first step', async (_how, end) => {
    const lock = new FakeLock();
    const result = finishStream(lock, rows()) as AsyncGenerator;
    await end(result);
    expect([lock.ends, await result.next()]).toEqual([['done'], DONE]);
  });

  it('rejects, and is closed, when it loses its lock before its first step', async () => {
    const lock = new FakeLock();
    const inner = rows();
    const result = finishStream(lock, inner) as AsyncGenerator;
    const lost = lock.lose();
    expect(await rejection(result.next())).toBe(lost);
    expect([lock.ends, await inner.next()]).toEqual([['failed'], DONE]);
  });

  it('can be iterated once, by an iterator that can itself be iterated', async () => {
    const lock = new FakeLock();
    const result = finishStream(lock, rows()) as AsyncGenerator;
    const iterator = result[Symbol.asyncIterator]();
    expect(iterator[Symbol.asyncIterator]()).toBe(iterator);
    const again = async () => {
      for await (const _ of result) return;
    };
    expect(await rejection(again())).toBeInstanceOf(LockNotHeldError);
    expect([await iterator.next(), lock.ends]).toEqual([{ done: false, value: 1 }, []]);
  });
});
