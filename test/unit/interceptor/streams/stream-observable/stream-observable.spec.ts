import { Observable, Subject, finalize, of, throwError } from 'rxjs';
import { LockBusyError } from '../../../../../lib/core/lock.errors.js';
import { lockedObservable } from '../../../../../lib/interceptor/streams/stream-observable.js';
import { ofOtherRxjs } from '../../../../support/apps/other-rxjs.js';
import { FakeLock, holder, opening, settled } from '../fake-stream-lock.js';
import { watch } from '../watch.js';

const boom = (): never => {
  throw new Error('business');
};

describe('a locked Observable', () => {
  it('does nothing until it is subscribed, and locks each subscription separately', async () => {
    const locks = [new FakeLock(), new FakeLock()];
    const open = opening(...locks);
    const source = lockedObservable(open, () => of(locks.indexOf(holder() as FakeLock)));
    expect(open.opened).toBe(0);
    const [first, second] = [watch(source), watch(source)];
    await settled();
    expect([first.told, second.told]).toEqual([
      [0, 'complete'],
      [1, 'complete'],
    ]);
    expect(locks.map(({ ends }) => ends)).toEqual([['done'], ['done']]);
  });

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

  it('runs the method, the source and its teardown as the holder', async () => {
    const lock = new FakeLock();
    const seen: unknown[] = [];
    const note = (): unknown => seen.push(holder());
    const method = () => {
      note();
      return new Observable<void>(() => void note()).pipe(finalize(note));
    };
    const { subscription } = watch(lockedObservable(opening(lock), method));
    await settled();
    subscription.unsubscribe();
    expect(seen).toEqual([lock, lock, lock]);
  });

  it('keeps the lock until the source completes, and completes when it is released', async () => {
    const lock = new FakeLock();
    let released = (): void => {};
    lock.releasing = new Promise((resolve) => (released = resolve));
    const source = new Subject<number>();
    const { told } = watch(lockedObservable(opening(lock), () => source));
    await settled();
    source.next(1);
    await settled();
    expect([told, lock.ends]).toEqual([[1], []]);
    source.complete();
    await settled();
    expect([told, lock.ends]).toEqual([[1], ['done']]);
    released();
    await settled();
    expect(told).toEqual([1, 'complete']);
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

  it('completes without a value when the call is skipped', async () => {
    const { told } = watch(lockedObservable(opening(null), boom));
    await settled();
    expect(told).toEqual(['complete']);
  });

  it.each([
    ['rejects', opening(new LockBusyError('busy'))],
    [
      'throws',
      () => {
        throw new LockBusyError('busy');
      },
    ],
  ])('errors when acquiring the lock %s', async (_how, open) => {
    const { told } = watch(lockedObservable(open, boom));
    await settled();
    expect(told).toEqual([['error', expect.any(LockBusyError)]]);
  });
});
