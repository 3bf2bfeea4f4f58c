import { Injectable } from '@nestjs/common';
import { type TestingModule } from '@nestjs/testing';
import { NO_FACTS } from '../../../lib/core/history/history-entry.js';
import { Locked, RedisLockService } from '../../../lib/index.js';
import { ManualClock, MemoryLockServer, MemoryLockStore, RedisLockTestingModule } from '../../../lib/testing/index.js';
import { closeAll, startModule } from '../../support/apps/lock-app.js';

@Injectable()
class Orders {
  constructor(readonly locks: RedisLockService) {}

  @Locked('order:<0>')
  async charge(id: string): Promise<string> {
    return id;
  }
}

let clock: ManualClock;
let server: MemoryLockServer;
let orders: Orders;
let app: TestingModule;

const start = async (): Promise<TestingModule> => {
  const imports = [RedisLockTestingModule.forRoot({ server, leaseMs: 30_000, waitMs: 5_000 })];
  return startModule({ imports, providers: [Orders] });
};

beforeEach(async () => {
  clock = new ManualClock();
  server = new MemoryLockServer({ clock });
  app = await start();
  orders = app.get(Orders);
});

afterEach(async () => {
  server.start();
  const closing = closeAll();
  await clock.advance(60_000);
  await closing;
});

describe('a server', () => {
  const remembered = () => [...server.locks.all.keys()].map((key) => key.split(':').at(-1));

  it('forgets only locks that were not used for a quarter of an hour', async () => {
    for (const key of ['a', 'b', 'c']) await orders.locks.withLock(key, () => undefined);
    const held = await orders.locks.acquire('held');
    await clock.advance(599_000);
    await orders.locks.withLock('c', () => undefined);
    expect(remembered()).toEqual(['a', 'b', 'c', 'held']);
    await clock.advance(361_000);
    await orders.locks.inspect('a');
    expect(remembered()).toEqual(['c', 'held']);
    expect((await orders.locks.inspect('a')).fencingToken).toBe(0);
    await held.release();
  });
});

describe('the history of a server', () => {
  it('is forgotten when its time is over, also when nothing more is written, and hands out copies', async () => {
    const { history } = new MemoryLockStore(server);
    const record = { ...NO_FACTS, event: 'acquired', key: 'k' } as const;
    const append = (id: string, keepMs: number) => {
      const now = clock.now();
      const batch = { id, now, keepMs, host: 'host', pid: 1, maxEntries: 100, records: [{ ...record, at: now }] };
      return history.append(batch);
    };
    await append('a.1', 60_000);
    const [entry] = await history.read({ limit: 10 });
    entry!.at.setTime(0);
    expect((await history.read({ limit: 10 }))[0]!.at.getTime()).not.toBe(0);
    await clock.advance(59_999);
    expect(await history.read({ limit: 10 })).toHaveLength(1);
    await clock.advance(1);
    expect(await history.read({ limit: 10 })).toEqual([]);
    await append('a.2', Infinity);
    expect((await history.read({ limit: 10 })).map(({ id }) => id)).toEqual(['a.2.0']);
  });
});

describe('a server that is stopped', () => {
  it('is told by what it cannot do, if that is about no lock', async () => {
    server.stop();
    await expect(orders.locks.list()[Symbol.asyncIterator]().next()).rejects.toThrow(
      /^The store cannot list the locks: /,
    );
    await expect(orders.locks.history()).rejects.toThrow(/^The store cannot read the history of the locks: /);
  });

  it('keeps locks for holders that come back in time: renewals go on, and others are excluded', async () => {
    const lock = await orders.locks.acquire('a');
    server.stop();
    await clock.advance(25_000);
    server.start();
    await clock.advance(100_000);
    expect([lock.held, await orders.locks.tryAcquire('a')]).toEqual([true, null]);
  });

  it('gets renewals of all locks at once when it is back', async () => {
    const lock = await orders.locks.acquire('a');
    let renewals = 0;
    orders.locks.events.on('renewed', () => (renewals += 1));
    server.stop();
    server.start();
    await clock.advance(0);
    await clock.advance(0);
    expect([renewals, lock.held]).toEqual([1, true]);
  });

  it('serves a waiting call when it is back', async () => {
    server.stop();
    const charging = orders.charge('1');
    await clock.advance(3_000);
    server.start();
    await clock.advance(1_000);
    expect(await charging).toBe('1');
  });

  it('learns of a release when it is back, and the next caller gets the lock', async () => {
    const other = (await start()).get(Orders);
    const lock = await orders.locks.acquire('a');
    const waiting = other.locks.acquire('a', { waitMs: 60_000 });
    await clock.advance(10);
    server.stop();
    const released = lock.release();
    await clock.advance(2_000);
    await released;
    expect(other.locks.activity).toEqual({ held: 0, waiting: 1 });
    server.start();
    await clock.advance(10_000);
    expect((await waiting).held).toBe(true);
  });

  it('may be stopped and started twice', async () => {
    server.start();
    server.stop();
    server.stop();
    server.start();
    expect((await orders.locks.acquire('a')).held).toBe(true);
  });
});
