import { Injectable } from '@nestjs/common';
import { Test, type TestingModule } from '@nestjs/testing';
import { Locked } from '../../../lib/index.js';
import { RedisLockTestingModule } from '../../../lib/testing/index.js';

@Injectable()
class Counter {
  value = 0;

  @Locked('counter')
  async add(): Promise<void> {
    const before = this.value;
    await new Promise((resume) => setImmediate(resume));
    this.value = before + 1;
  }
}

describe('Counter', () => {
  let app: TestingModule;

  beforeEach(async () => {
    const imports = [RedisLockTestingModule.forRoot()];
    app = await Test.createTestingModule({ imports, providers: [Counter] }).compile();
    await app.init();
  });

  afterEach(() => app.close());

  it('loses no count', async () => {
    const counter = app.get(Counter);
    await Promise.all(Array.from({ length: 10 }, () => counter.add()));
    expect(counter.value).toBe(10);
  });
});
