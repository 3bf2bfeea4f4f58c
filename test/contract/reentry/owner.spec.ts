import { LockLostError, LockReentryError } from '../../../lib/index.js';
import { eventually } from '../../support/waiting/eventually.js';
import { loadScripts, proxyTo } from '../../support/redis/own-redis.js';
import { type LockApp, closeAll, freshKey, openAdmin, startApp } from '../../support/apps/lock-app.js';
import { itOnSingle } from '../../support/topologies/topology.js';
import { untilWaiting } from '../../support/waiting/waiters.js';
import { rejection } from '../../support/waiting/rejection.js';

const OWNERS = [
  '-', '--', '%2D', ' ', 'a b', 'a%20b', 'a\tb', ':', ';', '%', '0', 'undefined', 'null', 'Ä-日本-🔒', "it's", '"', '{a}',
  '\\', '\n', '*', '__proto__', 'x'.repeat(128), '日'.repeat(128),
]; // prettier-ignore

const startTwo = async (): Promise<[LockApp, LockApp]> => [await startApp(), await startApp()];

/** How many holds remain, as each `released` event of the app says. */
function remainingHolds({ locks }: LockApp): (number | undefined)[] {
  const counts: (number | undefined)[] = [];
  locks.events.on('released', ({ holds }) => counts.push(holds));
  return counts;
}

describe('reentry across processes: one owner', () => {
  afterEach(closeAll);

  it('shares the lock with itself: one hold per attempt, one fencing token, and others wait', async () => {
    const [a, b] = await startTwo();
    const [key, owner] = [freshKey(), 'order-7'];
    const [one, two] = [await a.locks.acquire(key, { owner }), await b.locks.acquire(key, { owner })];
    expect(two.fencingToken).toBe(one.fencingToken);
    expect([one.owner, two.owner]).toEqual([owner, owner]);
    const { holders } = await a.locks.inspect(key);
    const { fencingToken } = one;
    expect(holders).toMatchObject([{ owner, fencingToken }, { owner, fencingToken }]); // prettier-ignore
    expect(new Set(holders.map(({ attempt }) => attempt)).size).toBe(2);
    expect(await b.locks.tryAcquire(key)).toBeNull();
    expect(await b.locks.tryAcquire(key, { owner: 'order-8' })).toBeNull();
    expect(await b.locks.tryAcquire(key, { mode: 'read' })).toBeNull();
  });

  it('is not the id of a hold without one, which its process may hand on', async () => {
    const [a, b] = await startTwo();
    const key = freshKey();
    const one = await a.locks.acquire(key);
    const next = a.locks.acquire(key);
    for (const { locks } of [a, b]) {
      for (const mode of ['write', 'read'] as const) {
        expect(await locks.tryAcquire(key, { owner: one.owner, mode })).toBeNull();
      }
    }
    await one.release();
    await (await next).release();
  });

  it('keeps the lock until the last of its holds is released', async () => {
    const [a, b] = await startTwo();
    const [key, owner] = [freshKey(), 'order-7'];
    const left = remainingHolds(a);
    const [one, two] = [await a.locks.acquire(key, { owner }), await b.locks.acquire(key, { owner })];
    await one.release();
    await one.release();
    expect(left).toEqual([1]);
    expect((await a.locks.inspect(key)).holders).toMatchObject([{ owner, fencingToken: two.fencingToken }]);
    expect(await a.locks.tryAcquire(key)).toBeNull();
    await two.extend(60_000);
    expect(two.held).toBe(true);
    const again = await a.locks.acquire(key, { owner });
    expect(again.fencingToken).toBe(two.fencingToken);
    await two.release();
    await again.release();
    expect(left).toEqual([1, 0]);
    expect((await a.locks.acquire(key)).fencingToken).toBeGreaterThan(two.fencingToken);
  });

  it('enters ahead of waiters, since behind them it would wait for itself', async () => {
    const [a, b] = await startTwo();
    const [key, owner] = [freshKey(), 'order-7'];
    const one = await a.locks.acquire(key, { owner });
    const waiting = b.locks.acquire(key, { waitMs: 25_000 });
    await untilWaiting(a, key);
    const two = await b.locks.acquire(key, { owner });
    expect(two.fencingToken).toBe(one.fencingToken);
    await one.release();
    expect((await a.locks.inspect(key)).waiters).toBe(1);
    await two.release();
    expect((await waiting).fencingToken).toBeGreaterThan(one.fencingToken);
  });

  it('may read under its own write, and is refused at once when it upgrades a read to a write', async () => {
    const [a, b] = await startTwo();
    const [key, owner] = [freshKey(), 'order-7'];
    const write = await a.locks.acquire(key, { owner });
    const read = await b.locks.acquire(key, { owner, mode: 'read' });
    expect(read.fencingToken).toBe(write.fencingToken);
    await write.release();
    expect(await b.locks.inspect(key)).toMatchObject({ mode: 'read' });
    const upgrade = await rejection(a.locks.acquire(key, { owner, waitMs: Infinity }));
    expect(upgrade).toBeInstanceOf(LockReentryError);
    expect(await b.locks.inspect(key)).toMatchObject({ mode: 'read', holders: [{ owner }], waiters: 0 });
    await read.release();
    expect((await a.locks.acquire(key, { owner })).mode).toBe('write');
  });

  it('learns only of the loss of its own hold', async () => {
    const [a, b] = await startTwo();
    const [key, owner] = [freshKey(), 'order-7'];
    const short = await a.locks.acquire(key, { owner, leaseMs: 100, renew: false });
    const long = await b.locks.acquire(key, { owner, leaseMs: 30_000 });
    await eventually(() => short.signal.aborted);
    expect(await rejection(short.extend(60_000))).toBeInstanceOf(LockLostError);
    await short.release();
    await long.extend(60_000);
    expect(long.held).toBe(true);
    await eventually(async () => (await a.locks.inspect(key)).holders.length === 1);
  });

  itOnSingle('has one hold when its acquire is sent again', async () => {
    const [proxy, admin] = [await proxyTo(), openAdmin()];
    await loadScripts(admin);
    const [a, b] = [await startApp({ connection: proxy.url }), await startApp()];
    const [key, owner] = [freshKey(), 'order-7'];
    const left = remainingHolds(a);
    const first = await b.locks.acquire(key, { owner });
    proxy.dropNextReply((text) => text.startsWith('evalsha ') && text.includes(key));
    const again = await a.locks.acquire(key, { owner });
    expect(proxy.droppedReplies).toBe(1);
    expect(again.fencingToken).toBe(first.fencingToken);
    expect((await b.locks.inspect(key)).holders).toHaveLength(2);
    await again.release();
    expect(left).toEqual([1]);
    expect(first.held).toBe(true);
    expect(await a.locks.tryAcquire(key)).toBeNull();
    await first.release();
    expect(await a.locks.tryAcquire(key)).not.toBeNull();
  });
});

describe('reentry across processes: names of owners', () => {
  afterEach(closeAll);

  it('may be any string, which inspect returns', async () => {
    const [a, b] = await startTwo();
    for (const owner of OWNERS) {
      const key = freshKey();
      const [one, two] = [await a.locks.acquire(key, { owner }), await b.locks.acquire(key, { owner, waitMs: 0 })];
      expect(two.fencingToken).toBe(one.fencingToken);
      expect((await a.locks.inspect(key)).holders.map((holder) => holder.owner)).toEqual([owner, owner]);
      await Promise.all([one.release(), two.release()]);
      const readers = [await a.locks.acquire(key, { owner, mode: 'read' })];
      readers.push(await b.locks.acquire(key, { owner, mode: 'read' }));
      expect(readers[1]!.fencingToken).toBe(readers[0]!.fencingToken);
      expect(await rejection(b.locks.acquire(key, { owner }))).toBeInstanceOf(LockReentryError);
      await Promise.all(readers.map((reader) => reader.release()));
      expect(await a.locks.isLocked(key)).toBe(false);
    }
  });
});
