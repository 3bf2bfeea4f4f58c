import { type Redis } from 'ioredis';
import { type LockStore } from '../../../lib/core/store/lock-store.js';
import { LOCK_STORE } from '../../../lib/redis-lock.tokens.js';
import { eventually } from '../../support/waiting/eventually.js';
import { expectWoken } from '../../support/waiting/waiters.js';
import { ownRedis } from '../../support/redis/own-redis.js';
import { type LockApp, closeAll, closeLater, freshKey, startApp } from '../../support/apps/lock-app.js';
import { hasSubscribed, startVip } from '../../support/network/vip.js';

/** Whether an app listens to a server. */
async function listensTo(admin: Redis, { app }: LockApp): Promise<boolean> {
  const channel = `lock:wake:${app.get<LockStore>(LOCK_STORE).clientId}`;
  return Number((await admin.pubsub('NUMSUB', channel))[1]) > 0;
}

describe('the subscriber', () => {
  afterEach(closeAll);

  it('is replaced when its connection is silently dead while a call waits', async () => {
    const { admin, port, url } = await ownRedis();
    const vip = closeLater(await startVip(port));
    const [holder, waiter] = [await startApp({ connection: url }), await startApp({ connection: vip.url })];
    const key = freshKey();
    const lock = await holder.locks.acquire(key);
    const waiting = waiter.locks.acquire(key, { waitMs: 60_000 });
    await eventually(async () => (await holder.locks.inspect(key)).waiters === 1);
    await eventually(() => listensTo(admin, waiter));
    // As when a NAT drops the connection: the server notices, the client does not.
    expect(vip.forget(hasSubscribed)).toBe(1);
    await eventually(async () => !(await listensTo(admin, waiter)));
    await eventually(() => listensTo(admin, waiter), { timeoutMs: 20_000 });
    await lock.release();
    await (await waiting).release();
    await expectWoken(holder, waiter);
  }, 60_000);

  it('follows the commands to another server', async () => {
    const [a, b] = [await ownRedis(), await ownRedis()];
    await b.admin.call('REPLICAOF', '127.0.0.1', a.port);
    await eventually(async () => (await a.admin.info('replication')).includes('state=online'), { timeoutMs: 20_000 });
    const vip = closeLater(await startVip(a.port));
    const app = await startApp({ connection: vip.url });
    await app.locks.withLock(freshKey(), () => undefined);
    await eventually(() => listensTo(a.admin, app));
    // The address moves; connections that exist stay.
    vip.target = b.port;
    await a.admin.call('FAILOVER');
    await eventually(async () => (await b.admin.info('replication')).includes('role:master'), { timeoutMs: 20_000 });
    const key = freshKey();
    const lock = await app.locks.acquire(key, { waitMs: 20_000, leaseMs: 4_000 });
    expect(await b.admin.exists(`lock:${key}`)).toBe(1);
    await eventually(() => listensTo(b.admin, app));
    expect(await listensTo(a.admin, app)).toBe(false);
    await lock.release();
  }, 60_000);
});
