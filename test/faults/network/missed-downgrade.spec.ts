import { LockStoreError } from '../../../lib/index.js';
import { type Redis } from 'ioredis';
import { eventually } from '../../support/waiting/eventually.js';
import { disconnect, ownRedis, proxyTo } from '../../support/redis/own-redis.js';
import { closeAll, freshKey, startApp } from '../../support/apps/lock-app.js';
import { heldRow, startNet } from '../../support/redis/quorum-net.js';
import { hashOf } from '../../support/redis/records.js';
import { rejection } from '../../support/waiting/rejection.js';
import { untilRenewed } from '../../support/waiting/waiters.js';

/** How each hold of a lock is held, as a server has it. */
async function modesOn(admin: Redis, key: string): Promise<string[]> {
  const holds = Object.entries(await hashOf(admin, key)).filter(([field]) => field.startsWith('hold:'));
  return holds.map(([, record]) => record.split(' ')[2]!);
}

/** Renewed soon. */
const LEASE_MS = 3_000;

describe('a downgrade that did not arrive', () => {
  afterEach(closeAll);

  it('is repeated by a renewal on the node of a quorum that missed it, and admits readers there', async () => {
    const net = await startNet(3);
    const [a, b] = [await net.app({ leaseMs: LEASE_MS }), await net.app()];
    const key = freshKey();
    const lock = await a.locks.acquire(key);
    await eventually(async () => (await heldRow(net.admins, key)) === '111');
    a.reaches(0, 1);
    await lock.downgrade();
    // By then the command for that node has been given up.
    await untilRenewed(a, 2);
    expect(await modesOn(net.admins[2]!, key)).toEqual(['write']);
    a.reaches(0, 1, 2);
    await eventually(async () => (await modesOn(net.admins[2]!, key))[0] === 'read');
    // Of a majority with that node, too.
    b.reaches(1, 2);
    const reader = await b.locks.acquire(key, { mode: 'read', waitMs: 5_000 });
    expect([lock.held, lock.mode, reader.held]).toEqual([true, 'read', true]);
    await Promise.all([lock.release(), reader.release()]);
  }, 60_000);

  it('is repeated by a renewal, since the lock already reports that it only reads', async () => {
    const { admin, url } = await ownRedis();
    const proxy = await proxyTo(url);
    const [a, b] = [await startApp({ connection: proxy.url }), await startApp({ connection: url })];
    const key = freshKey();
    const lock = await a.locks.acquire(key, { leaseMs: 2 * LEASE_MS });
    disconnect(proxy);
    expect(await rejection(lock.downgrade())).toBeInstanceOf(LockStoreError);
    expect([lock.mode, await modesOn(admin, key)]).toEqual(['read', ['write']]);
    proxy.refuse(false);
    const reader = await b.locks.acquire(key, { mode: 'read', waitMs: 10_000 });
    expect([lock.held, reader.held, await modesOn(admin, key)]).toEqual([true, true, ['read', 'read']]);
    await Promise.all([lock.release(), reader.release()]);
  }, 60_000);
});
