import { Injectable } from '@nestjs/common';
import { Test, type TestingModule } from '@nestjs/testing';
import { Locked, LockBusyError, RedisLockService } from 'nestjs-redis-lock';
import {
  FakeLockService,
  lockStoreContract,
  ManualClock,
  MemoryLockServer,
  MemoryLockStore,
  RedisLockTestingModule,
  withFakeLocks,
} from 'nestjs-redis-lock/testing';

@Injectable()
class Orders {
  @Locked('order:<0>', { ifBusy: 'throw' })
  async charge(id: string): Promise<string> {
    return id;
  }
}

describe('locks in memory', () => {
  let module: TestingModule;

  beforeEach(async () => {
    module = await Test.createTestingModule({
      imports: [RedisLockTestingModule.forRoot()],
      providers: [Orders],
    }).compile();
    await module.init();
  });

  afterEach(() => module.close());

  it('lock decorated methods', async () => {
    const orders = module.get(Orders);
    const held = await module.get(RedisLockService).acquire('order:7');
    await expect(orders.charge('7')).rejects.toBeInstanceOf(LockBusyError);
    expect(await orders.charge('8')).toBe('8');
    await held.release();
    expect(await orders.charge('7')).toBe('7');
  });

  it('are acquired by the service', async () => {
    const locks = module.get(RedisLockService);
    await using lock = await locks.tryAcquire('job');
    expect(lock?.held).toBe(true);
    expect(await locks.tryAcquire('job')).toBeNull();
  });
});

describe('fakes', () => {
  it('grant, record, refuse and lose, for an object that was built by hand', async () => {
    const locks = new FakeLockService();
    const orders = withFakeLocks(new Orders(), locks);
    expect(await orders.charge('7')).toBe('7');
    expect(locks.keys).toEqual(['order:7']);
    locks.refuse('order:7');
    await expect(orders.charge('7')).rejects.toBeInstanceOf(LockBusyError);
    const lost = locks.withLock('job', () => void locks.lose('job'));
    await expect(lost).rejects.toMatchObject({ code: 'LOCK_LOST', reason: 'expired' });
  });
});

describe('the contract of a store', () => {
  const clock = new ManualClock();
  const server = new MemoryLockServer({ clock });

  for (const { name, run } of lockStoreContract({ open: () => new MemoryLockStore(server), clock })) it(name, run);
});
