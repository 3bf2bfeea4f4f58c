import { LockLostError } from '../../../../lib/core/lock.errors.js';
import { runWithLock } from '../../../../lib/core/reentry/run.js';
import { LATE_MS, READ_MS, RELEASE_PATIENCE_MS } from '../../../../lib/core/timing.js';
import { resolveModuleOptions } from '../../../../lib/redis-lock.options.js';
import { RedisLockService } from '../../../../lib/redis-lock.service.js';
import { startLocker } from '../../../support/core/core-parts.js';
import { settled } from '../../../support/core/fake-clock.js';
import { gate } from '../../../support/waiting/gate.js';
import { outcomeOf } from '../../../support/waiting/outcome.js';
import { rejection } from '../../../support/waiting/rejection.js';

const failLater = async (): Promise<never> => {
  await Promise.resolve();
  throw new Error('business');
};
const failAtOnce = () => {
  throw new Error('business');
};

describe('work under a lock', () => {
  it.each([failLater, failAtOnce])('releases the lock and passes its error unchanged, with the stack of its caller: %p', async (work) => {
    const { locker, store } = startLocker();
    const service = new RedisLockService(locker, store, resolveModuleOptions({}));
    const theCaller = async (): Promise<void> => {
      await service.withLock('k', work);
    };
    const error = await rejection(theCaller());
    // The source maps of the tests drop the word `async`.
    expect([error.message, error.stack]).toEqual(['business', expect.stringMatching(/at (async )?theCaller/)]);
    expect(store.givenBack).toEqual(['k']);
  }); // prettier-ignore

  it.each([undefined, null, 0, 'text'])('may throw %p, which passes unchanged', async (thrown) => {
    expect(await rejection(startLocker().under('k', () => Promise.reject(thrown)))).toBe(thrown);
  });

  it('is replaced by the result of the error handler when the lock is refused, but not when the work fails', async () => {
    const { enter, store } = startLocker();
    const instead = (error: unknown) => `without it: ${(error as Error).message}`;
    const refused = Promise.reject(new Error('busy'));
    expect(await runWithLock(refused, () => 'done', undefined, instead)).toBe('without it: busy');
    await expect(runWithLock(enter('k'), failLater, undefined, instead)).rejects.toThrow('business');
    expect(store.givenBack).toEqual(['k']);
  });
});

describe('the wait for a release', () => {
  it.each([true, false])(
    'reads what has arrived while the event loop was blocked: an answer (%s)',
    async (isAnswered) => {
      const { clock, store, under } = startLocker();
      store.onRelease = null;
      const outcome = outcomeOf(under('k', () => 'value'));
      await settled();
      clock.jump(RELEASE_PATIENCE_MS + LATE_MS + 1);
      clock.turn();
      if (isAnswered) store.releases[0]!.reply({ outcome: 'expired', holds: 0, lastToken: 100 });
      await clock.advance(READ_MS);
      expect(outcome).toMatchObject(
        isAnswered ? { error: { code: 'LOCK_LOST', result: 'value' } } : { value: 'value' },
      );
    },
  );
});

describe('parallel calls under one hold that is lost', () => {
  it('each reject with their own error and result, and the reason of the signal has no result', async () => {
    const { under, revoke } = startLocker();
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
    revoke();
    open();
    await settled();
    const errors = [...nested, outer].map(({ error }) => error as LockLostError);
    const { message } = signal.reason as LockLostError;
    const lost = { code: 'LOCK_LOST', key: 'k', reason: 'revoked', message };
    expect(errors).toEqual(errors.map(() => expect.any(LockLostError)));
    expect([...errors, signal.reason]).toMatchObject([
      { ...lost, mode: 'read', result: 'first' },
      { ...lost, mode: 'read', result: 'second' },
      { ...lost, mode: 'write', result: 'outer' },
      { ...lost, result: undefined },
    ]);
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
