import { Injectable, Module } from '@nestjs/common';
import {
  currentLock,
  LockBusyError,
  LockConfigurationError,
  Locked,
  ReadLocked,
  RedisLockService,
} from '../../../lib/index.js';
import { ManualClock, MemoryLockServer, RedisLockTestingModule } from '../../../lib/testing/index.js';
import { closeAll, startModule } from '../../support/apps/lock-app.js';
import { startOrders } from './support/memory-apps.js';

@Injectable()
class Orders {
  constructor(readonly locks: RedisLockService) {}

  @Locked('order:<0>')
  async charge(id: string): Promise<string> {
    return currentLock().key + id;
  }

  @ReadLocked('order:<0>', { ifBusy: 'throw' })
  async read(id: string): Promise<string> {
    return id;
  }
}

afterEach(closeAll);

describe('RedisLockTestingModule', () => {
  it('needs no options', async () => {
    const app = await startModule({ imports: [RedisLockTestingModule.forRoot()], providers: [Orders] });
    expect(await app.get(Orders).charge('1')).toBe('order:11');
  });

  it('refuses wrong options, and a second registration', async () => {
    expect(() => RedisLockTestingModule.forRoot({ isGlobal: 'yes' as never })).toThrow(LockConfigurationError);
    await expect(startOrders(Orders, { leaseMs: -1 })).rejects.toBeInstanceOf(LockConfigurationError);
    const twice = [RedisLockTestingModule.forRoot(), RedisLockTestingModule.forRoot()];
    await expect(startModule({ imports: twice })).rejects.toThrow(/registered 2 times/);
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
