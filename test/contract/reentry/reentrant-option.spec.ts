import { type LockOptions, LockConfigurationError, LockReentryError } from '../../../lib/index.js';
import { eventually } from '../../support/waiting/eventually.js';
import { gate } from '../../support/waiting/gate.js';
import { rejection } from '../../support/waiting/rejection.js';
import { closeAll, freshKey, startApp } from '../../support/apps/lock-app.js';

/** What waits for its own end unless it is refused. */
const STRICT: LockOptions = { reentrant: false, waitMs: Infinity };

describe('reentrant: false', () => {
  afterEach(closeAll);

  it('rejects a nested withLock, acquire or tryAcquire at once, while the outer work goes on', async () => {
    const { locks } = await startApp();
    const key = freshKey();
    const outer = await locks.withLock(key, async (lock) => {
      for (const nested of [
        locks.withLock(key, STRICT, () => 'inside'),
        locks.withLock([freshKey(), key], STRICT, () => 'inside'),
        locks.withLock(key, { ...STRICT, mode: 'read' }, () => 'inside'),
        locks.acquire(key, STRICT),
        locks.tryAcquire(key, { reentrant: false }),
      ]) {
        const error = await rejection<LockReentryError>(nested);
        expect(error).toBeInstanceOf(LockReentryError);
        expect(error).toMatchObject({ code: 'LOCK_REENTRY', key });
        expect(error.message).toContain('`reentrant: false`');
      }
      expect(await locks.inspect(key)).toMatchObject({ waiters: 0, holders: [{ fencingToken: lock.fencingToken }] });
      return lock.held;
    });
    expect([outer, await locks.isLocked(key)]).toEqual([true, false]);
  });

  it('does not affect calls that are not nested: other keys, other chains of calls, and after the outer call', async () => {
    const [a, b] = [await startApp(), await startApp()];
    const [key, other] = [freshKey(), freshKey()];
    const [entered, held, ended] = [gate(), gate(), gate()];
    const running = a.locks.withLock(key, async () => {
      entered.open();
      expect(await a.locks.withLock(other, STRICT, () => 'other')).toBe('other');
      await held.opened;
      return { late: ended.opened.then(() => a.locks.withLock(key, STRICT, () => 'late')) };
    });
    await entered.opened;
    const waiting = [a, b].map(({ locks }) => locks.withLock(key, STRICT, () => 'next'));
    await eventually(() => [a, b].every(({ locks }) => locks.activity.waiting === 1));
    held.open();
    const { late } = await running;
    expect(await Promise.all(waiting)).toEqual(['next', 'next']);
    ended.open();
    expect(await late).toBe('late');
  });

  it('defaults to true, and must be a boolean', async () => {
    const { locks } = await startApp();
    const key = freshKey();
    const nested = (options: LockOptions) => locks.withLock(key, () => locks.withLock(key, options, () => 'inside'));
    expect([await nested({}), await nested({ reentrant: true })]).toEqual(['inside', 'inside']);
    const wrong = await rejection(nested({ reentrant: 'no' as unknown as boolean }));
    expect(wrong).toBeInstanceOf(LockConfigurationError);
    expect(wrong.message).toContain('Expected `reentrant` to be true or false');
  });
});
