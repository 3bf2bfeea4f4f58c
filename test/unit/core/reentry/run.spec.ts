import { currentLock } from '../../../../lib/core/reentry/context.js';
import { LockLostError } from '../../../../lib/core/lock.errors.js';
import { runWithLock } from '../../../../lib/core/reentry/run.js';
import { resolveModuleOptions } from '../../../../lib/redis-lock.options.js';
import { RedisLockService } from '../../../../lib/redis-lock.service.js';
import { endingAs, FakeKeeper, heldLock, startLocker } from '../../../support/core/core-parts.js';
import { settled } from '../../../support/core/fake-clock.js';
import { gate } from '../../../support/waiting/gate.js';
import { outcomeOf } from '../../../support/waiting/outcome.js';
import { rejection } from '../../../support/waiting/rejection.js';

describe('work under a lock', () => {
  it('gets the lock, returns its value, and is followed by the release', async () => {
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
  ])('releases the lock and passes its error unchanged when it %s', async (_how, work) => {
    const keeper = new FakeKeeper();
    await expect(runWithLock(heldLock(keeper), work)).rejects.toThrow('business');
    expect(keeper.releases).toBe(1);
  });

  it('is replaced by what the caller makes of the error when the lock is refused', async () => {
    const work = () => 'done';
    const instead = (error: unknown) => `without it: ${(error as Error).message}`;
    const refused = Promise.reject(new Error('busy'));
    expect(await runWithLock(refused, work, undefined, instead)).toBe('without it: busy');
  });

  it('is not replaced when it fails', async () => {
    const keeper = new FakeKeeper();
    const work = () => Promise.reject(new Error('business'));
    await expect(runWithLock(heldLock(keeper), work, undefined, () => 'instead')).rejects.toThrow('business');
    expect(keeper.releases).toBe(1);
  });

  it.each([undefined, null, 0, 'text'])('may throw %p, which passes unchanged', async (thrown) => {
    const work = () => Promise.reject(thrown);
    expect(await rejection(runWithLock(heldLock(), work))).toBe(thrown);
  });

  it.each([
    ['at once', () => Promise.reject(new Error('business'))],
    [
      'later',
      async () => {
        await Promise.resolve();
        throw new Error('business');
      },
    ],
  ])('fails %s with the stack of its caller', async (_when, work) => {
    const { locker, store } = startLocker();
    const service = new RedisLockService(locker, store, resolveModuleOptions({}));
    const theCaller = async (): Promise<void> => {
      await service.withLock('k', work);
    };
    const error = await rejection(theCaller());
    // The source maps of the tests drop the word `async`.
    expect(error.stack).toMatch(/at (async )?theCaller/);
  });

  it('rejects with LockLostError, with its value as the result, when it lost its lock and returned', async () => {
    const lock = heldLock();
    const work = () => {
      lock.lose('taken');
      return 'value';
    };
    const error = await rejection(runWithLock(lock, work));
    expect(error).toBeInstanceOf(LockLostError);
    expect(error).toMatchObject({ reason: 'taken', result: 'value' });
    const { message } = error as LockLostError;
    expect(lock.signal.reason).toMatchObject({ reason: 'taken', message });
    expect((lock.signal.reason as LockLostError).result).toBeUndefined();
  });

  it('rejects with its own error when it lost its lock and failed', async () => {
    const lock = heldLock();
    const work = () => {
      lock.lose('taken');
      throw new Error('business');
    };
    await expect(runWithLock(lock, work)).rejects.toThrow('business');
  });

  it('rejects with LockLostError when the lease ran out before any timer fired', async () => {
    const keeper = new FakeKeeper();
    const error = await rejection(runWithLock(heldLock(keeper), () => keeper.clock.jump(60_000)));
    expect(error).toMatchObject({ code: 'LOCK_LOST', reason: 'expired' });
  });

  it('rejects with LockLostError when the release finds that the lease had ended', async () => {
    const keeper = new FakeKeeper();
    const lock = heldLock(keeper);
    keeper.end = () => {
      lock.loseAtEnd('taken');
      return endingAs(false);
    };
    expect(await rejection(runWithLock(lock, () => 5))).toMatchObject({ reason: 'taken', result: 5 });
  });

  it('may release the lock itself, which is not done twice', async () => {
    const keeper = new FakeKeeper();
    expect(await runWithLock(heldLock(keeper), (lock) => lock.release().then(() => 'done'))).toBe('done');
    expect(keeper.releases).toBe(1);
  });

  it('returns its value when the release is not confirmed', async () => {
    const keeper = new FakeKeeper();
    keeper.end = () => endingAs(false);
    expect(await runWithLock(heldLock(keeper), () => 'done')).toBe('done');
  });
});

describe('parallel calls under one hold that is lost', () => {
  it('each reject with their own error and result, and the reason of the signal has no result', async () => {
    const { store, under } = startLocker();
    const { opened, open } = gate();
    let signal!: AbortSignal;
    const nested: { error?: unknown }[] = [];
    const outer = outcomeOf(
      under('k', async (lock) => {
        signal = lock.signal;
        const calls = ['first', 'second'].map((value) => under('k', () => opened.then(() => value), { mode: 'read' }));
        nested.push(...calls.map(outcomeOf));
        await Promise.allSettled(calls);
        return 'outer';
      }),
    );
    await settled();
    store.listener!.onWakeUp(store.acquires[0]!.request.attempt, { kind: 'revoked' });
    open();
    await settled();
    const errors = [...nested, outer].map(({ error }) => error as LockLostError);
    const { message } = signal.reason as LockLostError;
    const lost = { code: 'LOCK_LOST', key: 'k', reason: 'revoked', message };
    expect(errors).toEqual(errors.map(() => expect.any(LockLostError)));
    expect(errors).toMatchObject([
      { ...lost, mode: 'read', result: 'first' },
      { ...lost, mode: 'read', result: 'second' },
      { ...lost, mode: 'write', result: 'outer' },
    ]);
    expect(signal.reason).toMatchObject({ ...lost, result: undefined });
    expect(new Set([...errors, signal.reason]).size).toBe(4);
  });

  it('reject with the cause of the loss', async () => {
    const { clock, store, under } = startLocker();
    const cause = new Error('ECONNREFUSED');
    store.onRenew = (requests) => requests.map(() => ({ outcome: 'unknown', cause }));
    const outer = outcomeOf(under('k', () => clock.advance(3_000).then(() => 'outer')));
    await clock.advance(3_000);
    await settled();
    expect(outer.error).toMatchObject({ reason: 'unreachable', cause, result: 'outer' });
  });
});
