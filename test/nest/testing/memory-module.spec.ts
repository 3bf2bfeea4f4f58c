import { Injectable, Module } from '@nestjs/common';
import { from, firstValueFrom, Observable, Subject } from 'rxjs';
import {
  currentLock,
  Limited,
  LockBusyError,
  LockConfigurationError,
  Locked,
  LockKeyError,
  LockReentryError,
  LockShutdownError,
  LockWaitTimeoutError,
  ReadLocked,
  RedisLockService,
  WriteLocked,
} from '../../../lib/index.js';
import { ManualClock, MemoryLockServer, RedisLockTestingModule } from '../../../lib/testing/index.js';
import { eventually } from '../../support/waiting/eventually.js';
import { closeAll, startModule } from '../../support/apps/lock-app.js';
import { untilFree, untilWaiting } from '../../support/waiting/waiters.js';
import { startOrders } from './support/memory-apps.js';
import { gate } from '../../support/waiting/gate.js';

@Injectable()
class Orders {
  until: Promise<void> = Promise.resolve();

  constructor(readonly locks: RedisLockService) {}

  @Locked('order:<0>', { waitMs: 20 })
  async charge(id: string): Promise<string> {
    await this.until;
    return currentLock().key + id;
  }

  @ReadLocked('order:<0>', { ifBusy: 'throw' })
  async read(id: string): Promise<string> {
    await this.until;
    return id;
  }

  @WriteLocked('order:<0>', { ifBusy: 'skip' })
  async write(id: string): Promise<string | undefined> {
    return id;
  }

  @ReadLocked('order:<0>')
  async upgrade(id: string): Promise<string | undefined> {
    return this.write(id);
  }

  @Limited('slots', 2, { ifBusy: 'skip' })
  async limited(): Promise<string | undefined> {
    await this.until;
    return 'ran';
  }

  @Locked('values')
  values(): Observable<number> {
    return from([1, 2]);
  }

  @Locked('items')
  async *items(): AsyncGenerator<string> {
    yield currentLock().key;
  }
}

afterEach(closeAll);

describe('RedisLockTestingModule', () => {
  it('needs no options', async () => {
    const app = await startModule({ imports: [RedisLockTestingModule.forRoot()], providers: [Orders] });
    expect(await app.get(Orders).charge('1')).toBe('order:11');
  });

  it('excludes as the real module does: writers, readers, permits, nested calls', async () => {
    const { orders } = await startOrders(Orders);
    const until = gate();
    orders.until = until.opened;
    const reading = [orders.read('1'), orders.read('1')];
    const limited = [orders.limited(), orders.limited()];
    await eventually(() => orders.locks.activity.held === 4);
    await expect(orders.charge('1')).rejects.toBeInstanceOf(LockWaitTimeoutError);
    expect([await orders.write('1'), await orders.limited()]).toEqual([undefined, undefined]);
    await expect(orders.upgrade('1')).rejects.toBeInstanceOf(LockReentryError);
    until.open();
    expect(await Promise.all([...reading, ...limited])).toEqual(['1', '1', 'ran', 'ran']);
    expect(await orders.write('1')).toBe('1');
  });

  it('locks streams until they end', async () => {
    const { orders, locks } = await startOrders(Orders);
    expect(await firstValueFrom(orders.values())).toBe(1);
    for await (const key of orders.items()) expect(await locks.isLocked(key)).toBe(true);
    await eventually(() => locks.activity.held === 0);
  });

  it('locks a source that never ends until nobody listens to it', async () => {
    @Injectable()
    class Ticks {
      readonly ticks = new Subject<number>();

      @Locked('ticks')
      values(): Observable<number> {
        return this.ticks;
      }
    }
    const app = await startModule({ imports: [RedisLockTestingModule.forRoot()], providers: [Ticks] });
    const { locks, ticks } = { locks: app.get(RedisLockService), ticks: app.get(Ticks) };
    const subscription = ticks.values().subscribe();
    await eventually(() => locks.isLocked('ticks'));
    subscription.unsubscribe();
    await untilFree({ locks }, 'ticks');
    expect(ticks.ticks.observed).toBe(false);
  });

  it('serves waiters in their order, with rising tokens', async () => {
    const { locks } = await startOrders(Orders);
    const first = await locks.acquire('a');
    const order: string[] = [];
    const waiting = ['b', 'c'].map((name) =>
      locks.withLock('a', ({ fencingToken }) => {
        order.push(name);
        return fencingToken;
      }),
    );
    await untilWaiting({ locks }, 'a', 2);
    await first.release();
    const tokens = [first.fencingToken, ...(await Promise.all(waiting))];
    expect([order, tokens]).toEqual([['b', 'c'], tokens.toSorted((a, b) => a - b)]);
    expect(new Set(tokens).size).toBe(3);
  });

  it('serves operators: inspect, list, forceRelease', async () => {
    const { locks } = await startOrders(Orders, { keyPrefix: 'shop:' });
    const lock = await locks.acquire('a');
    const listed: string[] = [];
    for await (const { key } of locks.list()) listed.push(key);
    expect([listed, (await locks.inspect('a')).mode]).toEqual([['a'], 'write']);
    expect(await locks.forceRelease('a')).toBe(true);
    await eventually(() => lock.signal.aborted);
    expect(lock.signal.reason).toMatchObject({ reason: 'revoked' });
  });

  it('emits the same events', async () => {
    const { locks } = await startOrders(Orders);
    const seen: string[] = [];
    for (const name of ['acquired', 'waiting', 'timedOut', 'acquireFailed', 'released'] as const) {
      locks.events.on(name, () => seen.push(name));
    }
    await locks.withLock('a', async () => {
      await expect(locks.acquire('a', { waitMs: 5 })).rejects.toBeInstanceOf(LockWaitTimeoutError);
    });
    expect(seen).toEqual(['acquired', 'waiting', 'timedOut', 'acquireFailed', 'released']);
  });

  it('refuses the same keys and options', async () => {
    const { locks } = await startOrders(Orders);
    await expect(locks.acquire('x'.repeat(1_025))).rejects.toBeInstanceOf(LockKeyError);
    await expect(locks.acquire('a', { leaseMs: 0 })).rejects.toBeInstanceOf(LockConfigurationError);
    expect(() => RedisLockTestingModule.forRoot({ isGlobal: 'yes' as never })).toThrow(LockConfigurationError);
    await expect(startOrders(Orders, { leaseMs: -1 })).rejects.toBeInstanceOf(LockConfigurationError);
    const twice = [RedisLockTestingModule.forRoot(), RedisLockTestingModule.forRoot()];
    await expect(startModule({ imports: twice })).rejects.toThrow(/registered 2 times/);
  });

  it('shuts down as the real module does: it waits for holders and rejects waiting calls', async () => {
    const { app, orders, locks } = await startOrders(Orders, { drainMs: 10_000 });
    const until = gate();
    orders.until = until.opened;
    const reading = orders.read('1');
    await eventually(() => locks.activity.held === 1);
    const waiting = locks.acquire('order:1');
    const closing = app.close();
    await expect(waiting).rejects.toBeInstanceOf(LockShutdownError);
    await expect(locks.acquire('b')).rejects.toBeInstanceOf(LockShutdownError);
    until.open();
    expect(await reading).toBe('1');
    await closing;
    expect(locks.activity).toEqual({ held: 0, waiting: 0 });
  });
});

describe('forRootAsync', () => {
  it('takes its options from other providers, and the server beside the factory', async () => {
    const server = new MemoryLockServer();
    @Module({ providers: [{ provide: 'lease', useValue: 5_000 }], exports: ['lease'] })
    class ConfigModule {}
    const imports = [
      RedisLockTestingModule.forRootAsync({
        imports: [ConfigModule],
        inject: ['lease'],
        useFactory: (leaseMs: number) => ({ leaseMs, drainMs: 0 }),
        server,
      }),
    ];
    const app = await startModule({ imports, providers: [Orders] });
    const other = await startOrders(Orders, { server });
    await using lock = await app.get(RedisLockService).acquire('order:1');
    expect(lock.remainingMs).toBeLessThanOrEqual(5_000);
    await expect(other.orders.read('1')).rejects.toBeInstanceOf(LockBusyError);
  });
});

describe('isGlobal: false', () => {
  it('provides the service only to the modules that import it', async () => {
    const lockModule = RedisLockTestingModule.forRoot({ isGlobal: false });
    @Module({ imports: [lockModule], providers: [Orders] })
    class OrdersModule {}
    const app = await startModule({ imports: [OrdersModule] });
    expect(await app.get(Orders).charge('1')).toBe('order:11');
    @Module({ providers: [Orders] })
    class Outside {}
    await expect(startModule({ imports: [OrdersModule, Outside] })).rejects.toThrow(/RedisLockService/);
  });
});

describe('the clock', () => {
  it('belongs to the server, and another clock beside it is refused', () => {
    const server = new MemoryLockServer({ clock: new ManualClock() });
    expect(() => RedisLockTestingModule.forRoot({ server, clock: new ManualClock() })).toThrow(LockConfigurationError);
    expect(() => RedisLockTestingModule.forRoot({ server, clock: server.clock })).not.toThrow();
  });
});
