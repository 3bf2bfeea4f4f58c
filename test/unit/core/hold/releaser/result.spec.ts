import { describe, expect, it } from '@jest/globals';
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
  return { ...started, lock: await started.locker.acquire(['k'], lockOptions()) };
}

describe('a release tells whether the lock was still held', () => {
  it.each(['released', 'again'] as const)('by the answer of the store: %s', async (outcome) => {
    const { store, lock } = await held();
    store.onRelease = () => ({ ...released(), outcome });
    expect([await lock.release(), await lock.release()]).toEqual([true, false]);
  });

  it.each(['expired', 'unknown', 'revoked'] as const)('by the answer of the store: %s', async (outcome) => {
    const { store, lock } = await held();
    store.onRelease = () => ({ outcome, holds: 0, lastToken: 5 });
    expect(await lock.release()).toBe(false);
  });

  it('by its proven lease, when the store gives no answer', async () => {
    const { clock, store, lock } = await held();
    store.onRelease = down;
    const told = outcomeOf(lock.release());
    await clock.advance(5_000);
    expect(told.value).toBe(true);
  });

  it('and not without any proof: the machine may have slept', async () => {
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

  it('while a nested call keeps it, too', async () => {
    const { store, enter } = startLocker();
    const outer = await enter('k');
    outer.addNestedCall();
    expect([await outer.release(), store.releases.length]).toEqual([true, 0]);
    outer.removeNestedCall();
    await settled();
    expect(store.releases).toHaveLength(1);
  });

  it('of several keys only when each was', async () => {
    const { store, locker } = startLocker();
    const lock = await locker.acquire(['a', 'b'], lockOptions());
    store.onRelease = ({ key }) => (key === 'b' ? { outcome: 'expired', holds: 0, lastToken: 5 } : released());
    expect(await lock.release()).toBe(false);
  });
});
