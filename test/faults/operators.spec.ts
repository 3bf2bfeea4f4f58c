import { type LockLostError } from '../../lib/index.js';
import { closeAll, freshKey, startApp } from '../support/apps/lock-app.js';
import { ownRedis } from '../support/redis/own-redis.js';
import { deadlineOf, grantedAt } from '../support/redis/records.js';
import { eventually } from '../support/waiting/eventually.js';

const PATIENT = { timeoutMs: 40_000 };

async function start(...args: string[]) {
  const { admin, url } = await ownRedis(args);
  return { admin, a: await startApp({ connection: url }), b: await startApp({ connection: url }), key: freshKey() };
}

describe('a lock whose key an operator touches', () => {
  afterEach(closeAll);

  it('ends with its lease when an operator removed its time to live', async () => {
    const { admin, a, b, key } = await start();
    const held = await a.locks.acquire(key, { leaseMs: 1_500, renew: false });
    expect(await admin.persist(`lock:${key}`)).toBe(1);
    const deadline = await deadlineOf([admin], key);
    const next = await b.locks.acquire(key, { leaseMs: 3_600_000, waitMs: 25_000 });
    expect(grantedAt(next)).toBeGreaterThanOrEqual(deadline);
    expect(next.fencingToken).toBeGreaterThan(held.fencingToken);
    // A lease that ends later than the time to live that was set before sets it again.
    expect(await admin.pttl(`lock:${key}`)).toBeGreaterThan(0);
  });

  it('tells the holder of a lock whose key was made to expire', async () => {
    const { admin, a, b, key } = await start();
    const held = await a.locks.acquire(key, { leaseMs: 9_000 });
    await admin.pexpire(`lock:${key}`, 1);
    await eventually(async () => (await admin.exists(`lock:${key}`)) === 0);
    const next = await b.locks.acquire(key);
    await eventually(() => held.signal.aborted, PATIENT);
    expect((held.signal.reason as LockLostError).reason).toBe('taken');
    expect(next.fencingToken).toBeGreaterThan(held.fencingToken);
  });

  it('tells the holder of a lock that was evicted', async () => {
    // Nothing but the lock can go: the rest has no time to live.
    const { admin, a, key } = await start('--maxmemory-policy', 'volatile-ttl');
    const held = await a.locks.acquire(key, { leaseMs: 3_000 });
    await admin.config('SET', 'maxmemory', '1');
    await eventually(
      async () => {
        await admin.set('filler', 'x').catch(() => undefined);
        return (await admin.exists(`lock:${key}`)) === 0;
      },
      { message: 'The lock was not evicted' },
    );
    await admin.config('SET', 'maxmemory', '0');
    await eventually(() => held.signal.aborted, PATIENT);
    expect((held.signal.reason as LockLostError).reason).toBe('expired');
    const next = await a.locks.acquire(key);
    expect(next.fencingToken).toBeGreaterThan(held.fencingToken);
  });
});
