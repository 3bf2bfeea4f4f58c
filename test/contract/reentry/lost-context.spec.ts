import { AsyncResource } from 'node:async_hooks';
import { LockWaitTimeoutError } from '../../../lib/index.js';
import { closeAll, freshKey, startApp } from '../../support/apps/lock-app.js';
import { rejection } from '../../support/waiting/rejection.js';

describe('a call whose context was lost', () => {
  afterEach(closeAll);

  it('waits for its own lock until its wait is over, and is told that its process holds it', async () => {
    const { locks } = await startApp();
    const [key, outside] = [freshKey(), new AsyncResource('outside')];
    await locks.withLock(key, async (lock) => {
      const call = outside.runInAsyncScope(() => rejection(locks.acquire(key, { waitMs: 300 })));
      const error = await call;
      expect(error).toBeInstanceOf(LockWaitTimeoutError);
      expect(error.message).toContain(`:${process.pid}`);
      expect(lock.held).toBe(true);
    });
  });
});
