import { Injectable, Module } from '@nestjs/common';
import { type TestingModule } from '@nestjs/testing';
import { Redis } from 'ioredis';
import {
  InjectLockService,
  Limited,
  LockBusyError,
  LockConfigurationError,
  Locked,
  RedisLockModule,
  type RedisLockModuleOptions,
  RedisLockService,
} from '../../../lib/index.js';
import {
  ManualClock,
  type MemoryLockOptions,
  MemoryLockServer,
  RedisLockTestingModule,
  useMemoryLocks,
} from '../../../lib/testing/index.js';
import { closeAll, startModule } from '../../support/apps/lock-app.js';
import { startTrap, type Trap } from './support/start-trap.js';

@Injectable()
class Orders {
  constructor(readonly locks: RedisLockService) {}

  @Locked('order:<0>', { ifBusy: 'throw' })
  async charge(id: string): Promise<string> {
    return id;
  }
}

/** Uses the locks of a named module. */
@Injectable()
class Audits {
  constructor(@InjectLockService('audit') readonly locks: RedisLockService) {}

  @Locked('order:<0>', { connection: 'audit', ifBusy: 'throw' })
  async write(id: string): Promise<string> {
    return id;
  }
}

const kept: unknown[] = [];

/** Holds a lock to the end of the test; the garbage collector releases a handle without references. */
const keep = (lock: unknown): unknown => kept.push(lock);

let trap: Trap;

beforeEach(async () => void (trap = await startTrap()));

afterEach(async () => {
  await closeAll();
  expect(trap.connections()).toBe(0);
});

/** The app as it is in production: one lock module, and a named one. */
function appModule(options: RedisLockModuleOptions = {}) {
  const connection = trap.url;
  @Module({
    imports: [
      RedisLockModule.forRootAsync({ useFactory: () => ({ connection, drainMs: 0, ...options }) }),
      RedisLockModule.forRoot({ name: 'audit', connection, drainMs: 0, leaseMs: 5_000 }),
    ],
    providers: [Orders, Audits],
  })
  class AppModule {}
  return AppModule;
}

const start = (memory?: MemoryLockOptions, options?: RedisLockModuleOptions): Promise<TestingModule> =>
  startModule({ imports: [appModule(options)] }, (builder) => useMemoryLocks(builder, memory));

describe('useMemoryLocks', () => {
  it('keeps the locks of each module in memory, and nothing connects', async () => {
    const app = await start();
    const lock = await app.get(Orders).locks.acquire('order:1');
    await expect(app.get(Orders).charge('1')).rejects.toBeInstanceOf(LockBusyError);
    expect(await app.get(Audits).write('1')).toBe('1');
    keep(await app.get(Audits).locks.acquire('order:1'));
    await expect(app.get(Audits).write('1')).rejects.toBeInstanceOf(LockBusyError);
    await lock.release();
    expect(await app.get(Orders).charge('1')).toBe('1');
  });

  it('keeps the options of the modules', async () => {
    const app = await start({ clock: new ManualClock() }, { leaseMs: 7_000, waitMs: 0 });
    const [lock, audit] = [await app.get(Orders).locks.acquire('a'), await app.get(Audits).locks.acquire('a')];
    expect(lock.remainingMs > 5_000 && lock.remainingMs <= 7_000 && audit.remainingMs <= 5_000).toBe(true);
    await expect(app.get(Orders).locks.acquire('a')).rejects.toBeInstanceOf(LockBusyError);
    await expect(start({}, { leaseMs: -1 })).rejects.toBeInstanceOf(LockConfigurationError);
  });

  it('makes two apps with one server exclude each other, module by module, and prefix by prefix', async () => {
    const server = new MemoryLockServer();
    const [a, b] = await Promise.all([start({ server }), start({ server })]);
    keep(await a.get(Orders).locks.acquire('order:1'));
    await expect(b.get(Orders).charge('1')).rejects.toBeInstanceOf(LockBusyError);
    expect(await b.get(Audits).write('1')).toBe('1');
    keep(await a.get(Audits).locks.acquire('order:1'));
    await expect(b.get(Audits).write('1')).rejects.toBeInstanceOf(LockBusyError);
    const others = [await start(), await start({ server }, { keyPrefix: 'other:' })];
    for (const other of others) expect(await other.get(Orders).charge('1')).toBe('1');
  });

  it('uses the given clock, and refuses one that is not that of the server', async () => {
    const clock = new ManualClock();
    const app = await start({ clock });
    const lock = await app.get(Orders).locks.acquire('a', { renew: false });
    await clock.advance(30_000);
    expect(lock.held).toBe(false);
    const server = new MemoryLockServer({ clock });
    await expect(start({ server, clock: new ManualClock() })).rejects.toBeInstanceOf(LockConfigurationError);
  });

  it('does not touch a client that the app passes', async () => {
    const client = new Redis(trap.url, { lazyConnect: true });
    const app = await start({}, { connection: client });
    expect(await app.get(Orders).charge('1')).toBe('1');
    await app.close();
    expect(client.status).toBe('wait');
  });

  it('refuses what a quorum cannot do when the connection is a quorum', async () => {
    @Injectable()
    class Few {
      @Limited('few', 2)
      async run(): Promise<void> {}
    }
    const connection = [trap.url, trap.url.replace('127.0.0.1', 'localhost')];
    const imports = [RedisLockModule.forRoot({ connection })];
    const app = await startModule({ imports, providers: [Few] }, (builder) => useMemoryLocks(builder));
    await expect(app.get(Few).run()).rejects.toBeInstanceOf(LockConfigurationError);
  });

  it('is needed there: a RedisLockTestingModule next to the module of the app is refused', async () => {
    const starting = startModule({ imports: [appModule(), RedisLockTestingModule.forRoot()] });
    await expect(starting).rejects.toThrow(/registered 2 times/);
  });
});

describe('RedisLockTestingModule', () => {
  it('refuses wrong options, and a second registration', async () => {
    expect(() => RedisLockTestingModule.forRoot({ isGlobal: 'yes' as never })).toThrow(LockConfigurationError);
    const twice = [RedisLockTestingModule.forRoot(), RedisLockTestingModule.forRoot()];
    await expect(startModule({ imports: twice })).rejects.toThrow(/registered 2 times/);
  });

  it('takes its options from other providers with forRootAsync, and the server next to the factory', async () => {
    const server = new MemoryLockServer();
    @Module({ providers: [{ provide: 'lease', useValue: 5_000 }], exports: ['lease'] })
    class ConfigModule {}
    const lockModule = RedisLockTestingModule.forRootAsync({
      imports: [ConfigModule],
      inject: ['lease'],
      useFactory: (leaseMs: number) => ({ leaseMs, drainMs: 0 }),
      server,
    });
    const app = await startModule({ imports: [lockModule] });
    const other = await startModule({ imports: [RedisLockTestingModule.forRoot({ server })], providers: [Orders] });
    await using lock = await app.get(RedisLockService).acquire('order:1');
    expect(lock.remainingMs).toBeLessThanOrEqual(5_000);
    await expect(other.get(Orders).charge('1')).rejects.toBeInstanceOf(LockBusyError);
  });

  it('provides the service with `isGlobal: false` only to the modules that import it', async () => {
    @Module({ imports: [RedisLockTestingModule.forRoot({ isGlobal: false })], providers: [Orders] })
    class OrdersModule {}
    const app = await startModule({ imports: [OrdersModule] });
    expect(await app.get(Orders).charge('1')).toBe('1');
    @Module({ providers: [Orders] })
    class Outside {}
    await expect(startModule({ imports: [OrdersModule, Outside] })).rejects.toThrow(/RedisLockService/);
  });
});

describe('the check for connections', () => {
  it('notices an app that connects', async () => {
    const noticed = trap;
    const app = await startModule({ imports: [RedisLockModule.forRoot({ connection: noticed.url, drainMs: 0 })] });
    keep(
      await expect(app.get(RedisLockService).acquire('a', { waitMs: 0 })).rejects.toMatchObject({ code: 'LOCK_STORE' }),
    );
    expect(noticed.connections()).toBeGreaterThan(0);
    trap = await startTrap();
  });
});
