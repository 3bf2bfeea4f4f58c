import { closeAll, freshKey, startApp } from '../../support/apps/lock-app.js';
import { startChildApp } from '../../support/processes/child-app.js';
import { eventually } from '../../support/waiting/eventually.js';
import { untilWaiting } from '../../support/waiting/waiters.js';

describe('a waiter that is stopped', () => {
  afterEach(closeAll);

  it('lets the others pass, and waits again when it goes on', async () => {
    const [a, b, stopped] = [await startApp(), await startApp(), await startChildApp()];
    const key = freshKey();
    const held = await a.locks.acquire(key);
    const first = stopped.acquire(key, { waitMs: 60_000 });
    await untilWaiting(a, key);
    const second = b.locks.acquire(key, { waitMs: 60_000 });
    await untilWaiting(a, key, 2);
    stopped.process.kill('SIGSTOP');
    await held.release();
    const next = await second;
    stopped.process.kill('SIGCONT');
    // What was pushed to it is over: it asks, and learns that another holds the lock.
    await untilWaiting(a, key);
    expect([next.held, await stopped.isHeld()]).toEqual([true, false]);
    expect((await a.locks.inspect(key)).holders).toMatchObject([{ fencingToken: next.fencingToken }]);
    await next.release();
    expect(await first).toBeGreaterThan(next.fencingToken);
    expect(await stopped.isHeld()).toBe(true);
    await stopped.release();
    await eventually(async () => !(await a.locks.isLocked(key)));
  }, 60_000);
});
