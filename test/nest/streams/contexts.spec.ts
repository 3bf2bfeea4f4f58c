import 'reflect-metadata';
import { AsyncLocalStorage } from 'node:async_hooks';
import { Observable, Subject, concatMap, endWith, lastValueFrom, map, share, take, takeUntil, throwError, timer, toArray } from 'rxjs'; // prettier-ignore
import {
  currentLock,
  Locked,
  LockBusyError,
  LockNotHeldError,
  LockReentryError,
  ReadLocked,
} from '../../../lib/index.js';
import { gate } from '../../support/waiting/gate.js';
import { rejection } from '../../support/waiting/rejection.js';
import { type Locker } from '../../../lib/core/acquire/locker.js';
import { LOCKER } from '../../../lib/redis-lock.tokens.js';
import { closeAll, freshKey } from '../../support/apps/lock-app.js';
import { startManual } from '../support/manual-app.js';
import { untilWaiting } from '../../support/waiting/waiters.js';

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

/** As long as an iteration stands still before a call of its consumer is refused. */
async function standsStill({ streams }: { streams: Streams }): Promise<void> {
  const id = freshKey();
  expect(await rejectionInBody(streams.read(id), () => streams.update(id, ''))).toBeInstanceOf(LockReentryError);
}

/** Iterates, and gives what a call in the body of the loop rejected with. */
async function rejectionInBody(rows: AsyncIterable<unknown>, call: () => Promise<unknown>): Promise<unknown> {
  for await (const _ of rows) {
    const error = await rejection(call());
    return error;
  }
  return undefined;
}

afterEach(closeAll);

describe('a subscriber of a locked Observable', () => {
  it('does not enter the lock from another request that has subscribed, too', async () => {
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

  it.each(Object.keys(ROWS))('does not wait for itself when it calls a method of the same key (%s)', async (name) => {
    const { streams, id, locker, key, locks } = await start();
    const error = await rejectionInBody(await ROWS[name]!(streams, id), () => streams.update(id, 1));
    expect(error).toBeInstanceOf(LockReentryError);
    expect((error as Error).message).toMatch(/by the consumer of an iteration .*Make the call after the iteration/);
    expect(await locks.isLocked(key)).toBe(false);
    expect(locker.live).toMatchObject({ locks: 0, waiting: 0, timers: 0 });
  });

  it('does not wait for itself inside an outer lock of the same key, and with `withLock`', async () => {
    const { streams, id, key, locks } = await start();
    const nested = await locks.withLock(key, () => rejectionInBody(streams.rows(id), () => streams.update(id, 1)));
    const service = await rejectionInBody(streams.rows(id), () => locks.withLock(key, { waitMs: Infinity }, () => 1));
    const several = await rejectionInBody(streams.rows(id), () =>
      locks.withLock([freshKey(), key], { waitMs: Infinity }, () => 1),
    );
    for (const error of [nested, service, several]) expect(error).toBeInstanceOf(LockReentryError);
  });

  it('does not wait for itself in a loop inside a loop', async () => {
    const { streams, id } = await start();
    const errors: unknown[] = [];
    for await (const _ of streams.rows(id, 2)) {
      for await (const _ of streams.rows(freshKey(), 2)) errors.push(await rejection(streams.update(id, 1)));
      errors.push(await rejection(streams.update(id, 1)));
    }
    expect(errors).toEqual(Array.from({ length: 6 }, () => expect.any(LockReentryError)));
    await streams.update(id, 'after');
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

  it('makes others wait for the end, even those that were started beside it in the same turn', async () => {
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
      await streams.update(id, 'beside');
    };
    const both = Promise.all([consume(), beside()]);
    await untilWaiting(app, key);
    await standsStill(app);
    goOn.open();
    await both;
    expect(log).toEqual(['row 1', 'row 2', 'row 3', 'update beside']);
  });

  it('makes calls that an earlier value started wait for the end', async () => {
    const app = await start();
    const { streams, id, log, key } = app;
    const [standing, goOn] = [gate(), gate()];
    let leftOver: Promise<void> | undefined;
    const later = async (): Promise<void> => {
      await standing.opened;
      await streams.update(id, 'later');
    };
    const consumed = (async () => {
      for await (const row of streams.rows(id)) {
        if (row === 1) leftOver = later();
        if (row !== 2) continue;
        standing.open();
        await goOn.opened;
      }
    })();
    await untilWaiting(app, key);
    await standsStill(app);
    goOn.open();
    await Promise.all([consumed, leftOver]);
    expect(log).toEqual(['row 1', 'row 2', 'row 3', 'update later']);
  });

  it('does not wait for itself when one iterator has several consumers', async () => {
    const { streams, id, log } = await start();
    const rows = streams.rows(id, 4);
    const errors: unknown[] = [];
    const consume = async (): Promise<void> => {
      for (let result = await rows.next(); !result.done; result = await rows.next()) {
        const { value } = result;
        await streams.update(id, value).catch((error: unknown) => errors.push(error));
      }
    };
    await Promise.all([consume(), consume()]);
    expect(errors.length).toBeGreaterThan(0);
    expect(errors).toEqual(errors.map(() => expect.any(LockReentryError)));
    expect(log.slice(0, 4)).toEqual(['row 1', 'row 2', 'row 3', 'row 4']);
    expect(log).toHaveLength(8 - errors.length);
  });
});
