import { LockStoreError } from '../../../../../lib/core/lock.errors.js';
import { lockOptions, startLocker } from '../../../../support/core/core-parts.js';
import { settled } from '../../../../support/core/fake-clock.js';
import { released } from '../../../../support/core/fake-store.js';
import { outcomeOf } from '../../../../support/waiting/outcome.js';

const down = () => {
  throw new LockStoreError('down');
};

async function held() {
  const started = startLocker();
  return { ...started, lock: await started.locker.acquire(started.locker.request(['k'], lockOptions())) };
}

describe('the result of a release, which says whether the lock was still held', () => {
  it.each(['released', 'again'] as const)('is true, once, when the store answers %s', async (outcome) => {
    const { store, lock } = await held();
    store.onRelease = () => ({ ...released(), outcome });
    expect([await lock.release(), await lock.release()]).toEqual([true, false]);
  });

  it.each(['expired', 'unknown', 'revoked'] as const)('is false when the store answers %s', async (outcome) => {
    const { store, lock } = await held();
    store.onRelease = () => ({ outcome, holds: 0, lastToken: 5 });
    expect(await lock.release()).toBe(false);
  });

  it('comes from the proven lease when the store gives no answer', async () => {
    const { clock, store, lock } = await held();
    store.onRelease = down;
    const told = outcomeOf(lock.release());
    await clock.advance(5_000);
    expect(told.value).toBe(true);
  });

  it('is false without any proof, since the machine may have slept', async () => {
    const { clock, store, lock } = await held();
    store.onRelease = down;
    clock.wallOffsetMs += 60_000;
    const told = outcomeOf(lock.release());
    await clock.advance(5_000);
    expect(told.value).toBe(false);
    const confirmed = await held();
    confirmed.clock.wallOffsetMs += 60_000;
    expect(await confirmed.lock.release()).toBe(true);
  });

  it('is true while a nested call keeps the lock, too', async () => {
    const { store, enter } = startLocker();
    const outer = await enter('k');
    outer.addNestedCall();
    expect([await outer.release(), store.releases.length]).toEqual([true, 0]);
    outer.removeNestedCall();
    await settled();
    expect(store.releases).toHaveLength(1);
  });

  it('is true for several keys only when each was held', async () => {
    const { store, locker } = startLocker();
    const lock = await locker.acquire(locker.request(['a', 'b'], lockOptions()));
    store.onRelease = ({ key }) => (key === 'b' ? { outcome: 'expired', holds: 0, lastToken: 5 } : released());
    expect(await lock.release()).toBe(false);
  });
});
