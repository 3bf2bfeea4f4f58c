import 'reflect-metadata';
import { AsyncLocalStorage } from 'node:async_hooks';
import { Observable, Subject, concatMap, endWith, lastValueFrom, map, share, take, takeUntil, throwError, timer, toArray } from 'rxjs'; // prettier-ignore
import { currentLock, Locked, LockBusyError, LockNotHeldError } from '../../lib/index.js';
import { rejection } from '../support/faults.js';
import { closeAll, freshKey, startApp } from '../support/lock-app.js';

/** Which request this runs for. */
const requests = new AsyncLocalStorage<string>();

const isUnderLock = (): boolean => {
  try {
    return currentLock() !== undefined;
  } catch (error) {
    if (error instanceof LockNotHeldError) return false;
    throw error;
  }
};

class Streams {
  readonly stop = new Subject<void>();

  @Locked('stream:<0>', { leaseMs: 60_000 })
  observe(_id: string): Observable<boolean> {
    return timer(1, 20).pipe(map(isUnderLock), takeUntil(this.stop));
  }

  @Locked('stream:<0>')
  fail(_id: string): Observable<never> {
    return timer(1).pipe(concatMap(() => throwError(() => new Error('business'))));
  }

  @Locked('stream:<0>', { ifBusy: 'throw' })
  async touch(_id: string): Promise<void> {}
}

async function start() {
  const { app } = await startApp({}, { providers: [Streams] });
  return { streams: app.get(Streams), id: freshKey() };
}

afterEach(closeAll);

describe('a subscriber of a locked Observable', () => {
  it('that another request has subscribed to, too, does not enter the lock beside the method', async () => {
    const { streams, id } = await start();
    const shared = streams.observe(id).pipe(share());
    const first = requests.run('a', () => lastValueFrom(shared.pipe(toArray())));
    const touching = concatMap(() => rejection(streams.touch(id)));
    const touched = requests.run('b', () => lastValueFrom(shared.pipe(take(3), touching, toArray())));
    expect(await touched).toEqual(Array.from({ length: 3 }, () => expect.any(LockBusyError)));
    streams.stop.next();
    expect(new Set(await first)).toEqual(new Set([true]));
  });

  it('is told values and the end in its own context, and holds nothing there', async () => {
    const { streams, id } = await start();
    const told: unknown[] = [];
    const note = (): unknown => told.push([requests.getStore(), isUnderLock()]);
    await requests.run('a', () => lastValueFrom(streams.observe(id).pipe(take(1), endWith(true), map(note))));
    await new Promise<void>((resolve) => {
      const end = { next: () => streams.stop.next(), complete: () => resolve(void note()) };
      requests.run('b', () => streams.observe(id).subscribe(end));
    });
    await new Promise<void>((resolve) => {
      requests.run('c', () => streams.fail(id).subscribe({ error: () => resolve(void note()) }));
    });
    expect(told).toEqual([['a', false], ['a', false], ['b', false], ['c', false]]); // prettier-ignore
  });
});
