import { startChildApp } from '../support/processes/child-app.js';
import { eventually } from '../support/waiting/eventually.js';
import { closeAll, freshKey, startApp } from '../support/apps/lock-app.js';
import { openStore } from './support/stores.js';
import { itOnRedis } from '../support/topologies/topology.js';
import { untilWaiting } from '../support/waiting/waiters.js';
import { startMortal } from './support/mortal.js';
import { grantedAt } from '../support/redis/records.js';

const HOUR_MS = 3_600_000;
const PATIENT = { waitMs: 25_000 };

afterEach(closeAll);

describe('readers and writers', () => {
  itOnRedis('each reader has its own lease by the clock of Redis: a killed one frees only its own hold', async () => {
    const [a, child, store] = [await startApp(), await startChildApp({}, HOUR_MS), openStore()];
    const key = freshKey();
    const token = await child.acquire(key, { mode: 'read', leaseMs: 5_000 });
    const reader = await a.locks.acquire(key, { mode: 'read', leaseMs: 60_000 });
    await child.kill();
    const killedAt = await store.now();
    expect((await a.locks.inspect(key)).holders).toHaveLength(2);
    const holders = await eventually(
      async () => {
        const state = await a.locks.inspect(key);
        return state.holders.length === 1 && state.holders;
      },
      { timeoutMs: 40_000 },
    );
    expect(holders).toMatchObject([{ fencingToken: reader.fencingToken }]);
    expect(token).not.toBe(reader.fencingToken);
    expect(reader.held).toBe(true);
    expect(await a.locks.tryAcquire(key)).toBeNull();
    await reader.release();
    const writer = await a.locks.acquire(key, { waitMs: 0 });
    expect(grantedAt(writer)).toBeGreaterThanOrEqual(killedAt);
  });

  it('a waiting writer is granted the lock when all readers have died', async () => {
    const [a, gone] = [await startApp(), await startMortal()];
    const key = freshKey();
    await gone.acquire(key, { mode: 'read', leaseMs: 3_000 });
    const writer = a.locks.acquire(key, PATIENT);
    await untilWaiting(a, key, 1);
    await gone.kill();
    expect((await writer).held).toBe(true);
  });
});
