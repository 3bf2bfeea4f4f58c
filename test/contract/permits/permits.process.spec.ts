import { type LockOptions } from '../../../lib/index.js';
import { closeAll, freshKey, startApp } from '../../support/apps/lock-app.js';
import { startChildApp } from '../../support/processes/child-app.js';
import { itOnRedisWithPermits, itWithPermits } from '../../support/topologies/topology.js';
import { eventually } from '../../support/waiting/eventually.js';
import { untilWaiting } from '../../support/waiting/waiters.js';
import { startMortal } from '../support/mortal.js';

const PATIENT = { waitMs: 25_000 };
const permit = (permits: number, take = 1) => ({ mode: 'read', permits, take, ...PATIENT }) as const;

afterEach(closeAll);

describe('permits of processes', () => {
  itWithPermits('each have a lease: a killed process frees only its own', async () => {
    const [a, gone] = [await startApp(), await startMortal()];
    const key = freshKey();
    await gone.acquire(key, { ...permit(2), leaseMs: 3_000 });
    const mine = await a.locks.acquire(key, { ...permit(2), leaseMs: 60_000 });
    const waiting = a.locks.acquire(key, permit(2));
    await untilWaiting(a, key);
    await gone.kill();
    const next = await waiting;
    expect([mine.held, next.held]).toEqual([true, true]);
    const holders = async () => (await a.locks.inspect(key)).holders.length;
    await eventually(async () => (await holders()) === 2, { timeoutMs: 40_000 });
    expect(await a.locks.tryAcquire(key, permit(2))).toBeNull();
  });

  itWithPermits('that were taken in one call are all free when the lease of a killed process ends', async () => {
    const [a, gone] = [await startApp(), await startMortal()];
    const key = freshKey();
    await gone.acquire(key, { ...permit(5, 3), leaseMs: 3_000 });
    const waiting = a.locks.acquire(key, permit(5, 5));
    await untilWaiting(a, key);
    await gone.kill();
    expect((await waiting).held).toBe(true);
  });

  itOnRedisWithPermits('with `perInstance` are counted in each process by itself', async () => {
    const [a, b] = await Promise.all([startChildApp(), startChildApp()]);
    const key = freshKey();
    const options: LockOptions = { ...permit(20), perInstance: 1, waitMs: 0 };
    const tokens = [await a.acquire(key, options), await b.acquire(key, options)];
    expect(await a.tryAcquire(key, options)).toBeNull();
    expect(tokens[1]).toBeGreaterThan(tokens[0]!);
  });
});
