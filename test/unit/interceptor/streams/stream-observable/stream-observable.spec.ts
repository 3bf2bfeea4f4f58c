import { of, throwError } from 'rxjs';
import { lockedObservable } from '../../../../../lib/interceptor/streams/stream-observable.js';
import { ofOtherRxjs } from '../../../../support/apps/other-rxjs.js';
import { FakeLock, opening, settled } from '../fake-stream-lock.js';
import { watch } from '../watch.js';

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

  it('passes on the value of a promise that is not an Observable', async () => {
    const { told } = watch(lockedObservable(opening(new FakeLock()), () => Promise.resolve([1])));
    await settled();
    expect(told).toEqual([[1], 'complete']);
  });

  it.each([
    ['throws', boom],
    ['returns what is no source', () => undefined],
    ['gives a source that errors', () => throwError(() => new Error('business'))],
    ['gives a promise that rejects', () => Promise.reject(new Error('business'))],
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
      const ending = lock.end.bind(lock);
      lock.end = (outcome) => (lock.lose(), ending(outcome));
      const { told } = watch(lockedObservable(opening(lock), method));
      await settled();
      expect(told).toEqual([['error', thrown]]);
    },
  );
});
