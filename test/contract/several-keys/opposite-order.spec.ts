import { LockWaitTimeoutError } from '../../../lib/index.js';
import { type LockApp, closeAll, freshKey, startApp } from '../../support/apps/lock-app.js';
import { gate } from '../../support/waiting/gate.js';

afterEach(closeAll);

describe('two chains of calls that lock two keys in opposite order, one inside the other', () => {
  it('end with a LockWaitTimeoutError for one of them at least, and leave nothing locked', async () => {
    const [a, b] = [await startApp(), await startApp()];
    const keys = [freshKey('a'), freshKey('b')];
    const both = gate();
    let inside = 0;
    const chain = ({ locks }: LockApp, [outer, inner]: readonly string[]) =>
      locks.withLock(outer!, async () => {
        if (++inside === 2) both.open();
        await both.opened;
        return locks.withLock(inner!, { waitMs: 300 }, () => 'done');
      });
    const chains = [chain(a, keys), chain(b, keys.toReversed())];
    const outcomes = await Promise.allSettled(chains);
    const failures = outcomes.flatMap((outcome) => (outcome.status === 'rejected' ? [outcome.reason] : []));
    expect(failures.length).toBeGreaterThan(0);
    for (const failure of failures) expect(failure).toBeInstanceOf(LockWaitTimeoutError);
    for (const key of keys) expect(await a.locks.isLocked(key)).toBe(false);
    const lock = await a.locks.acquire(keys, { waitMs: 20_000 });
    expect(lock.held).toBe(true);
  });
});
