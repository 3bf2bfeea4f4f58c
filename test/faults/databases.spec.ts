import { isSilentAboutSelect, itLikeIoredis } from '../support/clients/library.js';
import { type AppClient, appClient } from '../support/redis/connections.js';
import { eventually } from '../support/waiting/eventually.js';
import { ownRedis, proxyTo, startReplicated } from '../support/redis/own-redis.js';
import { closeAll, closeLater, freshKey, openAdmin, startApp } from '../support/apps/lock-app.js';
import { startVip } from '../support/network/vip.js';

const LEASE = { leaseMs: 4_000, waitMs: 10_000 };

/** The locks of a database. */
async function locksIn(url: string, db: number): Promise<string[]> {
  const admin = openAdmin(`${url}/${db}`);
  return (await admin.keys('lock:*')).toSorted();
}

/** A client that its application took to another database. */
async function clientIn(db: number, url: string): Promise<AppClient> {
  const app = appClient(url);
  await app.select(db);
  return app;
}

/** A client in database 3 that is stuck, and left while it has a lock there. */
async function leftInDatabase3() {
  const { url, port } = await ownRedis();
  const vip = closeLater(await startVip(port));
  const client = await clientIn(3, vip.url);
  const { locks } = await startApp({ connection: client.client });
  const held = await locks.acquire('held', { leaseMs: 30_000 });
  // What it has sent and will send vanishes.
  vip.forget();
  const isBack = () => locks.withLock('after', LEASE, () => true).catch(() => false);
  await eventually(isBack, { timeoutMs: 20_000 });
  expect([await locksIn(url, 0), await locksIn(url, 3)]).toEqual([[], ['lock:after', 'lock:held']]);
  expect(await locks.isLocked('held')).toBe(true);
  await held.extend(30_000);
  await held.release();
  return { url, client, locks };
}

describe('a given client that selected a database', () => {
  afterEach(closeAll);

  it('keeps its locks in that database when it is replaced', async () => {
    const { url, locks } = await leftInDatabase3();
    await locks.withLock('after', LEASE, () => undefined);
    expect(await locksIn(url, 0)).toEqual([]);
  }, 60_000);

  itLikeIoredis(
    'has its locks in another database as soon as it selects that, although it is replaced',
    async () => {
      const { url, client, locks } = await leftInDatabase3();
      client.select(5).catch(() => undefined);
      await locks.withLock('moved', { leaseMs: 4_000, waitMs: 10_000 }, () => undefined);
      expect(await locksIn(url, 5)).toEqual(['lock:moved']);
    },
    60_000,
  );

  it('keeps its locks in that database when it was disconnected before it is replaced', async () => {
    const { url } = await ownRedis();
    const proxy = await proxyTo(url);
    const client = await clientIn(2, proxy.url);
    const { locks } = await startApp({ connection: client.client });
    await locks.withLock('before', LEASE, () => undefined);
    client.disconnect();
    await eventually(() => client.isEnded);
    await locks.withLock('after', { leaseMs: 4_000, waitMs: 10_000 }, () => undefined);
    expect(await locksIn(url, 2)).toEqual(['lock:after', 'lock:before']);
    expect(await locksIn(url, 0)).toEqual([]);
  });

  it('has its grants confirmed by replicas in that database', async () => {
    const { master } = await startReplicated();
    const client = await clientIn(4, master.url);
    const { locks } = await startApp({ connection: client.client, minReplicas: 1 });
    // No renewal in another database.
    const first = await locks.acquire('first', { ...LEASE, leaseMs: 30_000 });
    expect([await locksIn(master.url, 0), await locksIn(master.url, 4)]).toEqual([[], ['lock:first']]);
    expect(first.held).toBe(true);
    if (isSilentAboutSelect) return;
    await client.select(6);
    const second = await locks.acquire('second', LEASE);
    expect(await locksIn(master.url, 0)).toEqual([]);
    expect([await locksIn(master.url, 4), await locksIn(master.url, 6)]).toEqual([['lock:first'], ['lock:second']]);
    expect([first.held, second.held]).toEqual([true, true]);
  });
});

describe('the credentials of a given client', () => {
  afterEach(closeAll);

  it('are read again whenever we reconnect', async () => {
    const { url, admin } = await ownRedis();
    await admin.call('ACL', 'SETUSER', 'app', 'on', '>one', '~*', '&*', '+@all');
    const client = appClient(url, { username: 'app', password: 'one' });
    const { locks } = await startApp({ connection: client.client });
    const [held, key] = [await locks.acquire(freshKey()), freshKey()];
    await held.release();
    await admin.call('ACL', 'SETUSER', 'app', 'resetpass', '>two');
    client.setPassword('two');
    await admin.call('CLIENT', 'KILL', 'TYPE', 'pubsub');
    await eventually(async () => ((await admin.pubsub('CHANNELS', 'lock:wake:*')) as string[]).length === 1);
    const lock = await locks.acquire(key);
    const waiting = locks.acquire(key, { waitMs: 20_000 });
    await eventually(async () => (await locks.inspect(key)).waiters === 1);
    await lock.release();
    await (await waiting).release();
  });
});
