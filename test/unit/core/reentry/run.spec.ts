import { currentLock } from '../../../../lib/core/reentry/context.js';
import { LockLostError } from '../../../../lib/core/lock.errors.js';
import { runWithLock } from '../../../../lib/core/reentry/run.js';
import { FakeKeeper, heldLock, startLocker } from '../../../support/core/core-parts.js';
import { settled } from '../../../support/core/fake-clock.js';
import { gate } from '../../../support/waiting/gate.js';
import { outcomeOf } from '../../../support/waiting/outcome.js';

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
    keeper.end = () => {
      lock.loseAtEnd('taken');
      return Promise.resolve(false);
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
    keeper.end = () => Promise.reject(new Error('down'));
    expect(await runWithLock(heldLock(keeper), () => 'done')).toBe('done');
  });
});

describe('parallel calls under one hold that is lost', () => {
  it('reject each with an error of its own, which has its own result, and the reason of the signal has none', async () => {
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
