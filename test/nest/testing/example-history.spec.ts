import { Test, type TestingModule } from '@nestjs/testing';
import { RedisLockService } from '../../../lib/index.js';
import { RedisLockTestingModule } from '../../../lib/testing/index.js';

describe('the history of the locks', () => {
  let app: TestingModule;

  beforeEach(async () => {
    const imports = [RedisLockTestingModule.forRoot({ history: true })];
    app = await Test.createTestingModule({ imports }).compile();
    await app.init();
  });

  afterEach(() => app.close());

  it('names the operator who took a lock away', async () => {
    const locks = app.get(RedisLockService);
    await locks.acquire('order:7', { note: 'refund' });
    await locks.forceRelease('order:7', { by: 'ann' });
    const entries = await locks.history({ key: 'order:7' });
    expect(entries.find(({ event }) => event === 'acquired')).toMatchObject({ note: 'refund' });
    expect(entries.find(({ event }) => event === 'forced')).toMatchObject({ by: 'ann' });
  });
});
