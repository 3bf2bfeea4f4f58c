import 'reflect-metadata';
import { Readable } from 'node:stream';
import { concatMap, lastValueFrom, map, Observable, of, startWith, Subject, toArray } from 'rxjs';
import { currentLock, LockBusyError, LockConfigurationError, Locked, LockLostError, LockShutdownError } from '../../../lib/index.js'; // prettier-ignore
import { eventually, eventuallyPasses } from '../../support/waiting/eventually.js';
import { rejection } from '../../support/waiting/rejection.js';
import { untilWaiting } from '../../support/waiting/waiters.js';
import { collectGarbage } from '../../support/waiting/collect-garbage.js';
import { closeAll, freshKey, openAdmin, startApp } from '../../support/apps/lock-app.js';

const ERROR = new Error('of the source');

/** Streams that last until the test ends them. */
class Streams {
  readonly source = new Subject<number>();
  calls = 0;
  closed = 0;

  @Locked('stream:<0>', { leaseMs: 60_000 })
  observe(_id: string): Observable<string> {
    this.calls += 1;
    const { key } = currentLock();
    return this.source.pipe(map((value) => `${value} under ${key}`));
  }

  @Locked('stream:<0>', { leaseMs: 60_000 })
  async *generate(_id: string, to: number): AsyncGenerator<string> {
    this.calls += 1;
    try {
      for (let value = 1; value <= to; value += 1) yield `${value} under ${currentLock().key}`;
    } finally {
      this.closed += 1;
    }
  }

  @Locked('stream:<0>', { leaseMs: 60_000 })
  async observeLater(_id: string): Promise<Observable<number>> {
    return this.source;
  }

  @Locked('stream:<0>', { leaseMs: 60_000 })
  async generateLater(_id: string, to: number): Promise<AsyncIterable<number>> {
    return (async function* () {
      for (let value = 1; value <= to; value += 1) yield value;
    })();
  }

  @Locked('stream:<0>', { leaseMs: 500 })
  observeShort(_id: string): Observable<number> {
    return this.source;
  }

  @Locked('stream:<0>', { ifBusy: 'skip' })
  observeOrSkip(_id: string): Observable<number> {
    this.calls += 1;
    return of(1);
  }

  @Locked('stream:<0>', { ifBusy: 'throw' })
  observeOrThrow(_id: string): Observable<number> {
    this.calls += 1;
    return of(1);
  }

  @Locked('stream:<0>')
  async read(_id: string): Promise<Readable> {
    return Readable.from(['a']);
  }
}

async function start() {
  const [{ app, locks }, other] = [await startApp({}, { providers: [Streams] }), await startApp()];
  const id = freshKey();
  /** What another app sees. */
  const isFree = async (): Promise<boolean> => {
    const lock = await other.locks.tryAcquire(`stream:${id}`);
    await lock?.release();
    return lock !== null;
  };
  return { streams: app.get(Streams), locks, other: other.locks, id, isFree };
}

/** Notes all that an Observable emits. */
function notes(observable: Observable<unknown>) {
  const told: unknown[] = [];
  const subscription = observable.subscribe({
    next: (value) => told.push(value),
    error: (error: Error) => told.push(error),
    complete: () => told.push('complete'),
  });
  return { told, subscription };
}

afterEach(closeAll);

describe('a method that returns an Observable', () => {
  const ENDS: Record<string, (source: Subject<number>, unsubscribe: () => void) => void> = {
    complete: (source) => source.complete(),
    error: (source) => source.error(ERROR),
    unsubscribe: (_, unsubscribe) => unsubscribe(),
  };
  it.each(Object.keys(ENDS))('holds the lock from its subscription until its end (%s)', async (end) => {
    const { streams, id, isFree } = await start();
    const observable = streams.observe(id);
    expect([await isFree(), streams.calls]).toEqual([true, 0]);
    const { told, subscription } = notes(observable);
    await eventually(() => streams.source.observed);
    expect(await isFree()).toBe(false);
    streams.source.next(1);
    expect(await isFree()).toBe(false);
    ENDS[end]!(streams.source, () => subscription.unsubscribe());
    await eventually(isFree);
    const last = { complete: ['complete'], error: [ERROR] }[end] ?? [];
    await eventually(() => told.length === 1 + last.length);
    expect(told).toEqual([`1 under stream:${id}`, ...last]);
    expect(streams.source.observed).toBe(false);
  });

  it('holds the lock from the call until the end when it returns a promise of it', async () => {
    const { streams, id, isFree } = await start();
    const observable = await streams.observeLater(id);
    expect(await isFree()).toBe(false);
    const { told } = notes(observable);
    streams.source.next(1);
    streams.source.complete();
    await eventually(isFree);
    expect(told).toEqual([1, 'complete']);
  });

  it('ends with LockLostError when the lock is lost', async () => {
    const [{ streams, id }, admin] = [await start(), openAdmin()];
    const ended = rejection(lastValueFrom(streams.observeShort(id)));
    await eventually(() => streams.source.observed);
    await admin.del(`lock:stream:${id}`);
    expect(await ended).toBeInstanceOf(LockLostError);
    expect(streams.source.observed).toBe(false);
  });

  it('completes at once when the key is busy with `skip`, and errors with `throw`', async () => {
    const { streams, other, id } = await start();
    await other.acquire(`stream:${id}`);
    expect(await lastValueFrom(streams.observeOrSkip(id).pipe(toArray()))).toEqual([]);
    expect(await rejection(lastValueFrom(streams.observeOrThrow(id)))).toBeInstanceOf(LockBusyError);
    expect(streams.calls).toBe(0);
  });
});

describe('a method that is an async generator', () => {
  it('holds the lock from the first next() until the last', async () => {
    const { streams, id, isFree } = await start();
    const iterator = streams.generate(id, 2);
    expect([await isFree(), streams.calls]).toEqual([true, 0]);
    for (const value of [1, 2]) {
      expect(await iterator.next()).toEqual({ done: false, value: `${value} under stream:${id}` });
      expect(await isFree()).toBe(false);
    }
    expect(await iterator.next()).toEqual({ done: true, value: undefined });
    expect(await isFree()).toBe(true);
  });

  it.each(['break', 'return', 'throw'])('releases the lock on %s', async (end) => {
    const { streams, id, isFree } = await start();
    const iterator = streams.generate(id, 9);
    await iterator.next();
    for await (const value of end === 'break' ? iterator : []) if (value) break;
    if (end === 'return') await iterator.return(undefined);
    if (end === 'throw') await rejection(iterator.throw(new Error('of the reader')));
    expect([await isFree(), streams.closed]).toEqual([true, 1]);
  });

  it('holds the lock from the call until the end when it returns a promise of it', async () => {
    const { streams, id, isFree } = await start();
    const values: unknown[] = [];
    const iterable = await streams.generateLater(id, 2);
    for await (const value of iterable) values.push(value, await isFree());
    expect(values).toEqual([1, false, 2, false]);
    expect(await isFree()).toBe(true);
  });

  it('releases the lock when its reader is dropped half-way and garbage-collected', async () => {
    const { streams, id, isFree } = await start();
    await (async () => void (await streams.generate(id, 9).next()))();
    expect(await isFree()).toBe(false);
    await eventuallyPasses(async () => {
      await collectGarbage();
      expect(await isFree()).toBe(true);
    });
  });
});

it('a method that returns a Node stream rejects with LockConfigurationError, and releases its lock', async () => {
  const { streams, id, isFree } = await start();
  expect(await rejection(streams.read(id))).toBeInstanceOf(LockConfigurationError);
  expect(await isFree()).toBe(true);
});

async function* count(to: number, onEnd: () => void): AsyncGenerator<number> {
  try {
    for (let value = 1; value <= to; value += 1) yield value;
  } finally {
    onEnd();
  }
}

/** The kind of result is unknown before these methods are called. */
class Lists {
  ended = 0;

  @Locked('list:<0>', { ifBusy: 'throw', leaseMs: 60_000 })
  list(_id: string): AsyncIterable<number> {
    return count(3, () => (this.ended += 1));
  }

  @Locked('list:<0>', { ifBusy: 'skip', leaseMs: 60_000 })
  listOrSkip(_id: string): AsyncIterable<number> {
    return count(3, () => (this.ended += 1));
  }

  @Locked('list:<0>')
  text(_id: string): any {
    return 'text';
  }
}

async function startLists() {
  const { app, locks, locker } = await startApp({}, { providers: [Lists] });
  const id = freshKey();
  return { lists: app.get(Lists), locks, locker, id, isLocked: () => locks.isLocked(`list:${id}`) };
}

describe('a method that returns an async iterable, but is not an async function*', () => {
  it('holds the lock until the iteration ends', async () => {
    const { lists, id, isLocked } = await startLists();
    const values: number[] = [];
    for await (const value of lists.list(id)) {
      values.push(value);
      expect(await isLocked()).toBe(true);
    }
    expect([values, await isLocked(), lists.ended]).toEqual([[1, 2, 3], false, 1]);
  });

  it('releases the lock when its caller breaks, or returns before the first value', async () => {
    const { lists, id, isLocked } = await startLists();
    for await (const value of lists.list(id)) if (value === 2) break;
    expect([await isLocked(), lists.ended]).toEqual([false, 1]);
    const iterator = lists.list(id)[Symbol.asyncIterator]();
    await iterator.return!();
    expect(await isLocked()).toBe(false);
  });

  it('rejects at its first value when the lock is busy, and yields nothing when it is skipped', async () => {
    const { lists, locks, id } = await startLists();
    const busy = await locks.acquire(`list:${id}`);
    const first = lists.list(id)[Symbol.asyncIterator]().next();
    expect(await rejection(first)).toBeInstanceOf(LockBusyError);
    const values: number[] = [];
    for await (const value of lists.listOrSkip(id)) values.push(value);
    expect(values).toEqual([]);
    await busy.release();
  });

  it('may return another value, which cannot be iterated', async () => {
    const { lists, id, isLocked } = await startLists();
    expect(await lists.text(id)).toBe('text');
    const first = (lists.text(id) as AsyncIterable<number>)[Symbol.asyncIterator]().next();
    expect(await rejection(first)).toMatchObject({
      name: 'TypeError',
      message: expect.stringContaining('Lists.text returned string'),
    });
    expect(await isLocked()).toBe(false);
  });
});

/** Like the output of a compiler without `emitDecoratorMetadata`. */
class Untyped {
  readonly source = new Subject<number>();

  observe(_id: string): Observable<number> {
    return this.source.pipe(startWith(currentLock().fencingToken));
  }
}
const observe = Object.getOwnPropertyDescriptor(Untyped.prototype, 'observe')!;
Locked('untyped:<0>')(Untyped.prototype, 'observe', observe as TypedPropertyDescriptor<any>);
Object.defineProperty(Untyped.prototype, 'observe', observe);

describe('a method without metadata that returns an Observable', () => {
  const startUntyped = async () => {
    const { app, locks, locker } = await startApp({}, { providers: [Untyped] });
    const id = freshKey();
    return { locks, locker, id, key: `untyped:${id}`, untyped: app.get(Untyped) };
  };

  it.each<[string, (observed: Observable<number>) => Observable<number>]>([
    ['subscribed to', (observed) => observed],
    ['piped', (observed) => observed.pipe(map((value) => value))],
    ['mapped to', (observed) => of(0).pipe(concatMap(() => observed))],
  ])('holds the lock until the Observable ends when its call is %s', async (_how, use) => {
    const { untyped, locks, id, key } = await startUntyped();
    const values = lastValueFrom(use(untyped.observe(id)).pipe(toArray()));
    await eventually(() => untyped.source.observed);
    expect(await locks.isLocked(key)).toBe(true);
    untyped.source.next(2);
    untyped.source.complete();
    expect(await values).toEqual([expect.any(Number), 2]);
    expect(await locks.isLocked(key)).toBe(false);
  });

  it('releases the lock when its subscriber leaves before the lock is granted', async () => {
    const app = await startUntyped();
    const { untyped, locks, locker, id, key } = app;
    const held = await locks.acquire(key);
    const { told, subscription } = notes(untyped.observe(id));
    await untilWaiting(app, key);
    subscription.unsubscribe();
    await held.release();
    await eventually(() => locker.live.locks === 0 && locker.live.waiting === 0);
    expect([told, await locks.isLocked(key)]).toEqual([[], false]);
  });

  it('reports the error of its lock to the subscriber, once', async () => {
    const { untyped, locker } = await startUntyped();
    await locker.close(0);
    const { told } = notes(untyped.observe('7'));
    await eventually(() => told.length > 0);
    expect(told).toEqual([expect.any(LockShutdownError)]);
  });
});
