import { startChildApp } from '../support/processes/child-app.js';
import { closeAll, freshKey, openAdmin, startApp } from '../support/apps/lock-app.js';
import { describeOnRedis, topology } from '../support/topologies/topology.js';
import { untilWaiting } from '../support/waiting/waiters.js';
import { deadlineOf, grantedAt, serverTime } from '../support/redis/records.js';

const HOUR_MS = 3_600_000;

describeOnRedis('classic mistake: deadlines measured by client clocks', () => {
  afterEach(closeAll);

  it.each([HOUR_MS, -HOUR_MS])('a client whose clock is %i ms off does not steal the lock', async (skewMs) => {
    const [a, child, admin] = [await startApp(), await startChildApp({}, skewMs), openAdmin()];
    const key = freshKey();
    const held = await a.locks.acquire(key);
    expect(await child.tryAcquire(key)).toBeNull();
    const stolen = child.acquire(key, { waitMs: 25_000 });
    await untilWaiting(a, key);
    await held.extend(30_000);
    const released = await serverTime(admin);
    await held.release();
    expect(grantedAt({ fencingToken: await stolen })).toBeGreaterThanOrEqual(released);
    expect(await child.isHeld()).toBe(true);
  });

  it.each([HOUR_MS, -HOUR_MS])('a client whose clock is %i ms off does not keep the lock', async (skewMs) => {
    const [a, child, admin] = [await startApp(), await startChildApp({}, skewMs), openAdmin()];
    const key = freshKey();
    await child.acquire(key, { leaseMs: 1_500, renew: false });
    const deadline = await deadlineOf([admin], key);
    const next = await a.locks.acquire(key, { waitMs: 25_000 });
    expect(grantedAt(next)).toBeGreaterThanOrEqual(deadline - topology.spreadMs);
    expect(await child.isHeld()).toBe(false);
    await child.release();
    await next.extend(60_000);
  });
});
