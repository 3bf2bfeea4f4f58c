import { type LockState } from '../../../lib/index.js';
import { eventually } from '../../support/waiting/eventually.js';
import { closeAll, freshKey, startApp } from '../../support/apps/lock-app.js';

/** If the holder does not listen yet, its next renewal notifies it. */
const LEASE = { leaseMs: 6_000 };

describe('the operator methods with several keys', () => {
  afterEach(closeAll);

  it('inspect returns an array in the order of the keys', async () => {
    const { locks } = await startApp();
    const [free, held] = [freshKey(), freshKey()];
    const { fencingToken } = await locks.acquire(held);
    const states: LockState[] = await locks.inspect([held, free, held]);
    expect(states).toMatchObject([
      { key: held, mode: 'write', fencingToken },
      { key: free, mode: 'free', holders: [] },
      { key: held, mode: 'write' },
    ]);
  });

  it('isLocked reports whether any of the keys is held', async () => {
    const { locks } = await startApp();
    const keys = [freshKey(), freshKey(), freshKey()];
    expect(await locks.isLocked(keys)).toBe(false);
    const lock = await locks.acquire(keys[1]!);
    expect(await locks.isLocked(keys)).toBe(true);
    expect(await locks.isLocked([keys[0]!, keys[2]!])).toBe(false);
    await lock.release();
    expect(await locks.isLocked(keys)).toBe(false);
  });

  it('forceRelease revokes all that are held, and returns whether any was', async () => {
    const [a, b] = [await startApp(), await startApp()];
    const keys = [freshKey(), freshKey(), freshKey()];
    const held = [await a.locks.acquire(keys[0]!, LEASE), await a.locks.acquire([keys[1]!, keys[2]!], LEASE)];
    expect(await b.locks.forceRelease([...keys, freshKey()])).toBe(true);
    await eventually(() => held.every(({ signal }) => signal.aborted));
    for (const { signal } of held) expect(signal.reason).toMatchObject({ reason: 'revoked' });
    expect(await b.locks.isLocked(keys)).toBe(false);
    expect(await b.locks.forceRelease(keys)).toBe(false);
  });
});
