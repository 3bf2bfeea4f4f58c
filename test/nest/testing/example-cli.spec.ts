import { Injectable } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { Locked, RedisLockService } from '../../../lib/index.js';
import { RedisLockTestingModule } from '../../../lib/testing/index.js';

@Injectable()
class CatsService {
  constructor(private readonly locks: RedisLockService) {}

  @Locked('cats')
  async findAll(): Promise<boolean> {
    return this.locks.isLocked('cats');
  }
}

describe('CatsService', () => {
  it('locks the cats', async () => {
    const imports = [RedisLockTestingModule.forRoot()];
    const module = await Test.createTestingModule({ imports, providers: [CatsService] }).compile();
    expect(await module.get(CatsService).findAll()).toBe(true);
  });
});
