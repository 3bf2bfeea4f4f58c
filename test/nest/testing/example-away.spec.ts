import { Test } from '@nestjs/testing';
import { LockStoreError, RedisLockService } from '../../../lib/index.js';
import { ManualClock, MemoryLockServer, RedisLockTestingModule } from '../../../lib/testing/index.js';

it('what is held is lost as `unreachable` when Redis stays away for longer than the lease', async () => {
  const clock = new ManualClock();
  const server = new MemoryLockServer({ clock });
  const imports = [RedisLockTestingModule.forRoot({ server, leaseMs: 30_000 })];
  const app = await (await Test.createTestingModule({ imports }).compile()).init();
  const locks = app.get(RedisLockService);
  const lock = await locks.acquire('a');

  server.stop();
  const failing = expect(locks.acquire('b', { waitMs: 0 })).rejects.toBeInstanceOf(LockStoreError);
  await clock.advance(30_000);
  await failing;
  expect(lock.signal.reason).toMatchObject({ code: 'LOCK_LOST', reason: 'unreachable' });

  server.start();
  expect(await locks.withLock('a', () => 'back')).toBe('back');

  await app.close();
});
