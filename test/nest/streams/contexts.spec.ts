import 'reflect-metadata';
import { AsyncLocalStorage } from 'node:async_hooks';
import {
  concatMap,
  endWith,
  lastValueFrom,
  map,
  Observable,
  share,
  Subject,
  take,
  takeUntil,
  throwError,
  timer,
  toArray,
} from 'rxjs';
import {
  currentLock,
  LockBusyError,
  Locked,
  LockLostError,
  LockNotHeldError,
  LockWaitTimeoutError,
  ReadLocked,
} from '../../../lib/index.js';
import { gate } from '../../support/waiting/gate.js';
import { rejection } from '../../support/waiting/rejection.js';
import { type Locker } from '../../../lib/core/acquire/locker.js';
import { LOCKER } from '../../../lib/redis-lock.tokens.js';
import { closeAll, freshKey } from '../../support/apps/lock-app.js';
import { startManual } from '../support/manual-app.js';
import { untilWaiting } from '../../support/waiting/waiters.js';
import { eventually } from '../../support/waiting/eventually.js';

afterEach(closeAll);

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
  readonly log: string[] = [];

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

  @Locked('stream:<0>', { leaseMs: 60_000 })
  async *rows(_id: string, to = 3): AsyncGenerator<number> {
    for (let row = 1; row <= to; row += 1) {
      this.log.push(`row ${row}`);
      yield row;
    }
  }

  @ReadLocked('stream:<0>', { leaseMs: 60_000 })
  async *read(_id: string): AsyncGenerator<number> {
    yield* [1, 2, 3];
  }

  @Locked('stream:<0>', { leaseMs: 60_000 })
  async rowsLater(_id: string): Promise<AsyncIterable<number>> {
    return (async function* () {
      yield* [1, 2, 3];
    })();
  }

  @Locked('stream:<0>', { waitMs: Infinity })
  async update(_id: string, row: number | string): Promise<void> {
    this.log.push(`update ${row}`);
  }

  @ReadLocked('stream:<0>', { waitMs: Infinity })
  async look(_id: string): Promise<void> {
    this.log.push('look');
  }
}

async function start() {
  const { app, service: streams, locks, race } = await startManual(Streams);
  race();
  const id = freshKey();
  const locker = app.get<Locker>(LOCKER);
  return { streams, locks, locker, id, key: `stream:${id}`, log: streams.log };
}

describe('a subscriber of a locked Observable', () => {
  it('does not enter the lock from another request that has also subscribed', async () => {
    const { streams, id } = await start();
    const shared = streams.observe(id).pipe(share());
    const first = requests.run('a', () => lastValueFrom(shared.pipe(toArray())));
    const touching = concatMap(() => rejection(streams.touch(id)));
    const touched = requests.run('b', () => lastValueFrom(shared.pipe(take(3), touching, toArray())));
    expect(await touched).toEqual(Array.from({ length: 3 }, () => expect.any(LockBusyError)));
    streams.stop.next();
    expect(new Set(await first)).toEqual(new Set([true]));
  });

  it('gets values and the end in its own context, and holds nothing there', async () => {
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

describe('the body of a loop over a locked async iterable', () => {
  const ROWS: Record<string, (streams: Streams, id: string) => Promise<AsyncIterable<number>>> = {
    'a generator': async (streams, id) => streams.rows(id),
    'a promise of one': (streams, id) => streams.rowsLater(id),
    'a generator that reads': async (streams, id) => streams.read(id),
  };

  it.each(Object.keys(ROWS))('waits until its `waitMs` when it calls for the same key (%s)', async (name) => {
    const { streams, id, locker, key, locks } = await start();
    const outcomes: unknown[] = [];
    for await (const _ of await ROWS[name]!(streams, id)) {
      outcomes.push(await rejection(locks.withLock(key, { waitMs: 20 }, () => 'ran')));
    }
    expect(outcomes).toEqual(Array.from({ length: 3 }, () => expect.any(LockWaitTimeoutError)));
    expect(await locks.isLocked(key)).toBe(false);
    expect(locker.live).toMatchObject({ locks: 0, waiting: 0, timers: 0 });
  });

  it('may start calls that it awaits after the loop, which then run', async () => {
    const { streams, id, log } = await start();
    const calls: Promise<void>[] = [];
    for await (const row of streams.rows(id)) calls.push(streams.update(id, row));
    await Promise.all(calls);
    expect(log).toEqual(['row 1', 'row 2', 'row 3', 'update 1', 'update 2', 'update 3']);
  });

  it('may read a key that is iterated for reading, and call methods with other keys', async () => {
    const { streams, id, log } = await start();
    for await (const _ of streams.read(id)) {
      await streams.look(id);
      await streams.update(freshKey(), 'another');
    }
    expect(log).toEqual(Array.from({ length: 3 }, () => ['look', 'update another']).flat());
  });

  it('makes others wait for the end, even those that started in the same turn', async () => {
    const app = await start();
    const { streams, id, log, key } = app;
    const [standing, goOn] = [gate(), gate()];
    const consume = async (): Promise<void> => {
      for await (const row of streams.rows(id)) {
        if (row > 1) continue;
        standing.open();
        await goOn.opened;
      }
    };
    const beside = async (): Promise<void> => {
      await standing.opened;
      await streams.update(id, 'next');
    };
    const both = Promise.all([consume(), beside()]);
    await untilWaiting(app, key);
    goOn.open();
    await both;
    expect(log).toEqual(['row 1', 'row 2', 'row 3', 'update next']);
  });
});

const LEASE_MS = 30_000;

/** Streams whose next value does not come. */
class Steps {
  readonly done = gate();
  signal: AbortSignal | undefined;

  @Locked('steps:<0>', { leaseMs: LEASE_MS })
  async *never(_id: string): AsyncGenerator<number> {
    this.signal = currentLock().signal;
    yield 1;
    await new Promise(() => {});
  }

  @Locked('steps:<0>', { leaseMs: LEASE_MS })
  async neverLater(_id: string): Promise<AsyncIterator<number> & AsyncIterable<number>> {
    this.signal = currentLock().signal;
    const next = async (): Promise<IteratorResult<number>> => new Promise(() => {});
    const iterator = { next, return: async () => ({ done: true as const, value: undefined }) };
    return { ...iterator, [Symbol.asyncIterator]: () => iterator };
  }

  @Locked('steps:<0>', { leaseMs: LEASE_MS })
  async *slow(_id: string): AsyncGenerator<number> {
    yield 1;
    await this.done.opened;
    yield 2;
  }
}

async function startSteps() {
  const { service: steps, locks, settle } = await startManual(Steps);
  const id = freshKey();
  return { steps, locks, id, settle, isLocked: () => locks.isLocked(`steps:${id}`) };
}

describe('an iteration that its consumer ends while a value is pending', () => {
  it('ends with one more lease when the value never comes: the signal is aborted, and return() rejects', async () => {
    const { steps, id, settle, isLocked } = await startSteps();
    const iterator = steps.never(id);
    await iterator.next();
    const calls = [rejection(iterator.next()), rejection(iterator.return(undefined))];
    expect(await isLocked()).toBe(true);
    const [lost, told] = await settle(Promise.all(calls));
    expect([lost, told]).toEqual([expect.any(LockLostError), lost]);
    expect(steps.signal?.reason).toBe(lost);
    await eventually(async () => !(await isLocked()));
    expect(await iterator.next()).toEqual({ done: true, value: undefined });
  });

  it('ends with one more lease even when return() itself has been answered', async () => {
    const { steps, id, settle, isLocked } = await startSteps();
    const iterator = (await steps.neverLater(id))[Symbol.asyncIterator]();
    const next = rejection(iterator.next());
    const ended = rejection(iterator.return!());
    expect(await settle(Promise.all([next, ended]))).toEqual([expect.any(LockLostError), expect.any(LockLostError)]);
    await eventually(async () => !(await isLocked()));
  });

  it('does not affect an outer hold, and ends with one more lease when only it keeps the hold', async () => {
    const { steps, locks, id, settle, isLocked } = await startSteps();
    const outer = await locks.withLock(`steps:${id}`, { leaseMs: LEASE_MS }, async () => {
      const iterator = steps.never(id);
      await iterator.next();
      return [rejection(iterator.next()), rejection(iterator.return(undefined))];
    });
    expect(await isLocked()).toBe(true);
    const [lost, told] = await settle(Promise.all(outer));
    expect([lost, told]).toEqual([expect.any(LockLostError), lost]);
    await eventually(async () => !(await isLocked()));
  });

  it('waits for a value that comes within that time, under the lock', async () => {
    const { steps, id, isLocked } = await startSteps();
    const iterator = steps.slow(id);
    await iterator.next();
    const calls = [iterator.next(), iterator.return(undefined)];
    expect(await isLocked()).toBe(true);
    steps.done.open();
    expect(await Promise.all(calls)).toEqual([
      { done: false, value: 2 },
      { done: true, value: undefined },
    ]);
    expect(await isLocked()).toBe(false);
  });
});
