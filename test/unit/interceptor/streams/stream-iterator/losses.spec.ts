import { describe, expect, it } from '@jest/globals';
import { finishStream } from '../../../../../lib/interceptor/streams/stream-result.js';
import { lockedAsyncIterable } from '../../../../../lib/interceptor/streams/stream-iterator.js';
import { collectGarbage } from '../../../../support/waiting/collect-garbage.js';
import { FakeLock, holder, opening, rejectionOf, settled } from '../fake-stream-lock.js';

const DONE = { done: true, value: undefined };

async function* rows(): AsyncGenerator<number> {
  yield 1;
  yield 2;
}

describe('a locked async iterable that loses its lock', () => {
  /** A method that hangs at its second step until it is told. */
  function hanging() {
    const seen: unknown[] = [];
    let resume = (): void => {};
    async function* method() {
      try {
        yield 1;
        await new Promise<void>((resolve) => (resume = resolve));
        yield 2;
        seen.push('went on');
      } finally {
        seen.push(holder());
      }
    }
    return { seen, method, resume: () => resume() };
  }

  it('while a next() is pending rejects it at once, and has the method stop where it is', async () => {
    const lock = new FakeLock();
    lock.releasing = new Promise(() => {});
    const { seen, method, resume } = hanging();
    const iterator = lockedAsyncIterable(opening(lock), method);
    await iterator.next();
    const pending = rejectionOf(iterator.next());
    await settled();
    const lost = lock.lose();
    expect(await pending).toBe(lost);
    expect(await iterator.next()).toEqual(DONE);
    expect([seen, lock.ends, lock.listeners]).toEqual([[], ['failed'], 0]);
    resume();
    await settled();
    expect(seen).toEqual([lock]);
  });

  it('rejects all calls that are pending', async () => {
    const lock = new FakeLock();
    const iterator = lockedAsyncIterable(opening(lock), hanging().method);
    await iterator.next();
    const calls = [rejectionOf(iterator.next()), rejectionOf(iterator.next())];
    await settled();
    const lost = lock.lose();
    expect(await Promise.all(calls)).toEqual([lost, lost]);
    expect([lock.ends, lock.listeners]).toEqual([['failed'], 0]);
  });

  it('between two calls rejects the next one, and has the method stop', async () => {
    const lock = new FakeLock();
    const { seen, method } = hanging();
    const iterator = lockedAsyncIterable(opening(lock), method);
    await iterator.next();
    expect(lock.listeners).toBe(0);
    const lost = lock.lose();
    expect(await rejectionOf(iterator.next())).toBe(lost);
    await settled();
    expect([seen, lock.ends, lock.listeners]).toEqual([[lock], ['failed'], 0]);
    expect(await iterator.next()).toEqual(DONE);
  });

  it('does not mind an iterator that cannot be closed, fails at it, or fails later', async () => {
    const parts = [{}, { return: () => { throw new Error('close'); } }, { return: () => Promise.reject(new Error('close')) }]; // prettier-ignore
    for (const part of parts) {
      const lock = new FakeLock();
      let fail = (_error: Error): void => {};
      const next = () => new Promise<never>((_resolve, reject) => (fail = reject));
      const iterator = lockedAsyncIterable(opening(lock), () => ({
        [Symbol.asyncIterator]: () => ({ next, ...part }),
      }));
      const pending = rejectionOf(iterator.next());
      await settled();
      const lost = lock.lose();
      expect(await pending).toBe(lost);
      fail(new Error('later'));
      await settled();
      expect(lock.ends).toEqual(['failed']);
    }
  });

  it('before the method was called rejects without calling it', async () => {
    const lock = new FakeLock();
    const lost = lock.lose();
    const method = () => expect(true).toBe(false);
    expect(await rejectionOf(lockedAsyncIterable(opening(lock), method).next())).toBe(lost);
    expect(lock.ends).toEqual(['failed']);
  });

  it.each([
    ['next', (it: AsyncGenerator) => it.next()],
    ['return', (it: AsyncGenerator) => it.return('x')],
  ])('at the release rejects the %s() that ended it', async (_how, end) => {
    const lock = new FakeLock();
    const iterator = lockedAsyncIterable(opening(lock), rows);
    await iterator.next();
    await iterator.next();
    const ending = lock.end.bind(lock);
    lock.end = (outcome) => (lock.lose(), ending(outcome));
    const error = await rejectionOf(end(iterator));
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
    'of %s lets go of its lock, though its signal is still held',
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
