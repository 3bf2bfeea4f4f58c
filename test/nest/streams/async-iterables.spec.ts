import 'reflect-metadata';
import { Locked, LockBusyError } from '../../../lib/index.js';
import { rejection } from '../../support/waiting/rejection.js';
import { closeAll, freshKey, startApp } from '../../support/apps/lock-app.js';

async function* count(to: number, onEnd: () => void): AsyncGenerator<number> {
  try {
    for (let value = 1; value <= to; value += 1) yield value;
  } finally {
    onEnd();
  }
}

/** What these methods return is not known before they are called. */
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

async function start() {
  const { app, locks, locker } = await startApp({}, { providers: [Lists] });
  const id = freshKey();
  return { lists: app.get(Lists), locks, locker, id, isLocked: () => locks.isLocked(`list:${id}`) };
}

describe('a method that returns an async iterable and is not an async function*', () => {
  afterEach(closeAll);

  it('holds the lock until the iteration ends', async () => {
    const { lists, id, isLocked } = await start();
    const values: number[] = [];
    for await (const value of lists.list(id)) {
      values.push(value);
      expect(await isLocked()).toBe(true);
    }
    expect([values, await isLocked(), lists.ended]).toEqual([[1, 2, 3], false, 1]);
  });

  it('releases the lock when its caller breaks, or returns before the first value', async () => {
    const { lists, id, isLocked } = await start();
    for await (const value of lists.list(id)) if (value === 2) break;
    expect([await isLocked(), lists.ended]).toEqual([false, 1]);
    const iterator = lists.list(id)[Symbol.asyncIterator]();
    await iterator.return!();
    expect(await isLocked()).toBe(false);
  });

  it('may be awaited first', async () => {
    const { lists, id, isLocked } = await start();
    const [values, listed]: [number[], unknown] = [[], lists.list(id)];
    for await (const value of (await listed) as AsyncIterable<number>) values.push(value);
    expect([values, await isLocked()]).toEqual([[1, 2, 3], false]);
  });

  it('rejects at its first value when the lock is busy, and yields nothing when it is skipped', async () => {
    const { lists, locks, id } = await start();
    const busy = await locks.acquire(`list:${id}`);
    const first = lists.list(id)[Symbol.asyncIterator]().next();
    expect(await rejection(first)).toBeInstanceOf(LockBusyError);
    const values: number[] = [];
    for await (const value of lists.listOrSkip(id)) values.push(value);
    expect(values).toEqual([]);
    await busy.release();
  });

  it('may return another value, which cannot be iterated', async () => {
    const { lists, id, isLocked } = await start();
    expect(await lists.text(id)).toBe('text');
    const first = (lists.text(id) as AsyncIterable<number>)[Symbol.asyncIterator]().next();
    expect(await rejection(first)).toMatchObject({
      name: 'TypeError',
      message: expect.stringContaining('Lists.text returned string'),
    });
    expect(await isLocked()).toBe(false);
  });
});
