import { Test, type TestingModule } from '@nestjs/testing';
import { LockWaitTimeoutError, RedisLockService } from '../../../lib/index.js';
import { ManualClock, RedisLockTestingModule } from '../../../lib/testing/index.js';

describe('time', () => {
  let clock: ManualClock;
  let app: TestingModule;

  beforeEach(async () => {
    clock = new ManualClock();
    const imports = [RedisLockTestingModule.forRoot({ clock, leaseMs: 30_000 })];
    app = await Test.createTestingModule({ imports }).compile();
    await app.init();
  });

  // With a `drainMs` (0 by default here), a shutdown would wait for the holders: as long as this clock is advanced.
  afterEach(() => app.close());

  it('renews a lease, and ends one that is not renewed', async () => {
    const locks = app.get(RedisLockService);
    const renewed = await locks.acquire('a');
    const expired = await locks.acquire('b', { renew: false });
    await clock.advance(3_600_000);
    expect([renewed.held, expired.held]).toEqual([true, false]);
  });

  it('ends a wait', async () => {
    const locks = app.get(RedisLockService);
    const held = await locks.acquire('a');
    const waiting = expect(locks.acquire('a', { waitMs: 60_000 })).rejects.toBeInstanceOf(LockWaitTimeoutError);
    await clock.advance(60_000);
    await waiting;
    await held.release();
  });
});
