import { LockStoreError } from '../../../../../lib/core/lock.errors.js';
import { lockOptions, startLocker } from '../../../../support/core/core-parts.js';
import { settled } from '../../../../support/core/fake-clock.js';
import { granted, released } from '../../../../support/core/fake-store.js';

const LEASE_MS = 1_000;
const EXTENDED_MS = 10_000;

describe('the release of a lock whose extension had no answer', () => {
  it('is tried until the extended lease is over: the store may have carried the extension out', async () => {
    const { clock, store, locker } = startLocker();
    store.onAcquire = () => granted(LEASE_MS, 1);
    store.onRenew = (requests) => requests.map(() => ({ outcome: 'unknown', cause: new Error('no answer') }));
    const lock = await locker.acquire(locker.request(['k'], lockOptions({ leaseMs: LEASE_MS })));
    await expect(lock.extend(EXTENDED_MS)).rejects.toThrow('could not be extended');
    store.onRenew = null;
    await clock.advance(LEASE_MS);
    expect(lock.lost?.reason).toBe('unreachable');
    store.onRelease = () => {
      throw new LockStoreError('down');
    };
    void lock.release();
    await settled();
    await clock.advance(EXTENDED_MS / 2);
    store.onRelease = () => released();
    const tried = store.releases.length;
    await clock.advance(2_000);
    expect(store.releases).toHaveLength(tried + 1);
    expect(locker.live.releasing).toBe(0);
  });
});
