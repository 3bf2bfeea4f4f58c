import { finishStream } from '../../../../../lib/interceptor/streams/stream-result.js';
import { lockedAsyncIterable } from '../../../../../lib/interceptor/streams/stream-iterator.js';
import { collectGarbage } from '../../../../support/waiting/collect-garbage.js';
import { FakeLock, holder, opening, settled } from '../fake-stream-lock.js';
import { rejection } from '../../../../support/waiting/rejection.js';

const DONE = { done: true, value: undefined };

async function* rows(): AsyncGenerator<number> {
  yield 1;
  yield 2;
}

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
        seen.push('went on');
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
    const ending = lock.end.bind(lock);
    lock.end = (outcome) => (lock.lose(), ending(outcome));
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
