import { Injectable, Module } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { Locked, LockBusyError, RedisLockModule, RedisLockService } from '../../../lib/index.js';
import { useMemoryLocks } from '../../../lib/testing/index.js';

@Injectable()
class OrdersService {
  @Locked('order:<0>', { ifBusy: 'throw' })
  async charge(id: string): Promise<string> {
    return `charged ${id}`;
  }
}

@Module({
  imports: [RedisLockModule.forRoot({ connection: 'redis://redis.example:6379' })],
  providers: [OrdersService],
})
class AppModule {}

it('an order that is locked is not charged', async () => {
  const app = await useMemoryLocks(Test.createTestingModule({ imports: [AppModule] })).compile();
  await app.init();
  const lock = await app.get(RedisLockService).acquire('order:7');
  await expect(app.get(OrdersService).charge('7')).rejects.toBeInstanceOf(LockBusyError);
  await lock.release();
  expect(await app.get(OrdersService).charge('7')).toBe('charged 7');
  await app.close();
});
