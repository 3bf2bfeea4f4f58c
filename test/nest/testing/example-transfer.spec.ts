import { LockLostError } from '../../../lib/index.js';
import { FakeLockService } from '../../../lib/testing/index.js';

it('a job that runs twice does not adopt its lock again', async () => {
  const locks = new FakeLockService();
  const text = await (await locks.acquire('export:7')).transfer();
  await using lock = await locks.adopt(text);
  expect(lock.held).toBe(true);
  await expect(locks.adopt(text)).rejects.toBeInstanceOf(LockLostError);
});
