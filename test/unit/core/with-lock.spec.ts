import { currentLock } from '../../../lib/core/lock-context.js';
import { LockLostError } from '../../../lib/core/lock.errors.js';
import { runWithLock } from '../../../lib/core/with-lock.js';
import { FakeKeeper, heldLock } from '../../support/core-parts.js';

const rejectionOf = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => Promise.reject(new Error('It did not reject.')),
    (error: unknown) => error,
  );

describe('work under a lock', () => {
  it('gets the lock, gives its value, and is released after it', async () => {
    const keeper = new FakeKeeper();
    const lock = heldLock(keeper);
    const work = async (given: unknown) => {
      await Promise.resolve();
      expect([given, currentLock(), keeper.releases]).toEqual([lock, lock, 0]);
      return 'done';
    };
    expect(await runWithLock(lock, work)).toBe('done');
    expect(keeper.releases).toBe(1);
  });

  it.each([
    ['rejects', () => Promise.reject(new Error('business'))],
    [
      'throws',
      () => {
        throw new Error('business');
      },
    ],
  ])('that %s is released, and its error passes untouched', async (_how, work) => {
    const keeper = new FakeKeeper();
    await expect(runWithLock(heldLock(keeper), work)).rejects.toThrow('business');
    expect(keeper.releases).toBe(1);
  });

  it.each([undefined, null, 0, 'text'])('may throw %p, which passes untouched', async (thrown) => {
    const work = () => Promise.reject(thrown);
    expect(await rejectionOf(runWithLock(heldLock(), work))).toBe(thrown);
  });

  it('that lost its lock and returned rejects with LockLostError, and the value is its result', async () => {
    const lock = heldLock();
    const work = () => {
      lock.lose('taken');
      return 'value';
    };
    const error = await rejectionOf(runWithLock(lock, work));
    expect(error).toBeInstanceOf(LockLostError);
    expect(error).toMatchObject({ reason: 'taken', result: 'value' });
    const { message } = error as LockLostError;
    expect(lock.signal.reason).toMatchObject({ reason: 'taken', message });
    expect((lock.signal.reason as LockLostError).result).toBeUndefined();
  });

  it('that lost its lock and failed rejects with its own error', async () => {
    const lock = heldLock();
    const work = () => {
      lock.lose('taken');
      throw new Error('business');
    };
    await expect(runWithLock(lock, work)).rejects.toThrow('business');
  });

  it('whose lease ran out before any timer fired rejects with LockLostError', async () => {
    const keeper = new FakeKeeper();
    const error = await rejectionOf(runWithLock(heldLock(keeper), () => keeper.clock.jump(60_000)));
    expect(error).toMatchObject({ code: 'LOCK_LOST', reason: 'expired' });
  });

  it('rejects with LockLostError when the release finds that the lease had ended', async () => {
    const keeper = new FakeKeeper();
    const lock = heldLock(keeper);
    keeper.release = () => {
      lock.loseAtRelease('taken');
      return Promise.resolve();
    };
    expect(await rejectionOf(runWithLock(lock, () => 5))).toMatchObject({ reason: 'taken', result: 5 });
  });

  it('may release by itself, which is not done twice', async () => {
    const keeper = new FakeKeeper();
    expect(await runWithLock(heldLock(keeper), (lock) => lock.release().then(() => 'done'))).toBe('done');
    expect(keeper.releases).toBe(1);
  });

  it('gives its value when the keeper fails to release', async () => {
    const keeper = new FakeKeeper();
    keeper.release = () => Promise.reject(new Error('down'));
    expect(await runWithLock(heldLock(keeper), () => 'done')).toBe('done');
  });
});
