import { Injectable } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { LockStoreError, RedisLockService } from '../../../lib/index.js';
import { FakeLockService } from '../../../lib/testing/index.js';

@Injectable()
class Stock {
  constructor(private readonly locks: RedisLockService) {}

  move(sku: string): Promise<string> {
    return this.locks.withLock(`sku:${sku}`, () => `moved ${sku}`);
  }
}

it('nothing moves while Redis is away', async () => {
  const locks = new FakeLockService();
  const providers = [Stock, { provide: RedisLockService, useValue: locks }];
  const stock = (await Test.createTestingModule({ providers }).compile()).get(Stock);
  expect(await stock.move('7')).toBe('moved 7');
  locks.fail();
  await expect(stock.move('7')).rejects.toBeInstanceOf(LockStoreError);
});
