import { type LockStoreError, type RedisConnection } from '../../lib/index.js';
import { isSilentAboutSelect, itLikeIoredis } from '../support/clients/library.js';
import { type AppClient, appClient, givenClient, givenIoredis } from '../support/redis/connections.js';
import { eventually } from '../support/waiting/eventually.js';
import { killConnections, ownRedis, proxyTo, startReplicated } from '../support/redis/own-redis.js';
import { ownSentinels } from '../support/redis/own-topologies.js';
import { closeAll, closeLater, freshKey, openAdmin, startApp } from '../support/apps/lock-app.js';
import { startVip } from '../support/network/vip.js';
import { rejection } from '../support/waiting/rejection.js';

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

const OPENED: [string, (url: string) => RedisConnection][] = [
  ['a connection of its own', (url) => url],
  ['a given client', (url) => givenClient(url)],
];

/** A server with a user that may do everything, and its URL for database 5. */
async function withUser(server?: Awaited<ReturnType<typeof ownRedis>>) {
  const { admin, url, port } = server ?? (await ownRedis());
  await admin.call('ACL', 'SETUSER', 'app', 'on', '>secret', '~*', '&*', '+@all');
  return { admin, url, ofUser: `redis://app:secret@127.0.0.1:${port}/5` };
}

/** Before its connections are ready, a client reports the refusal itself. */
const untilListening = (admin: { pubsub(command: 'CHANNELS', pattern: string): Promise<unknown> }) =>
  eventually(async () => ((await admin.pubsub('CHANNELS', 'lock:wake:*')) as string[]).length === 1);

describe('a database that the server refuses', () => {
  afterEach(closeAll);

  it.each(OPENED)(
    'serves no lock, by %s whose user has lost the right to SELECT',
    async (_what, open) => {
      const { admin, url, ofUser } = await withUser();
      const { locks } = await startApp({ connection: open(ofUser) });
      const held = await locks.acquire('held', LEASE);
      await admin.call('ACL', 'SETUSER', 'app', '-select');
      await killConnections(admin, 'normal');
      let granted = 0;
      const refused = async () => {
        const error = await locks.acquire('refused', { waitMs: 0 }).then(
          () => void (granted += 1),
          (reason: LockStoreError) => reason,
        );
        return error && error.message.includes('NOPERM') && !error.wasSent;
      };
      await eventually(refused);
      await eventually(() => held.signal.aborted, { timeoutMs: 20_000 });
      expect(granted).toBe(0);
      // ioredis sends the commands of a given client again by itself, which may take a lock there.
      const others = (await locksIn(url, 0)).filter((key) => key !== 'lock:refused');
      expect(others).toEqual([]);
      await admin.call('ACL', 'SETUSER', 'app', '+select');
      await eventually(() => locks.withLock('after', { waitMs: 0 }, () => true).catch(() => false));
      expect([await locksIn(url, 0), await locksIn(url, 5)].map((names) => names.includes('lock:after'))).toEqual([
        false,
        true,
      ]);
    },
    60_000,
  );

  it.each(OPENED)('serves no lock, by %s with a number that the server does not have', async (_what, open) => {
    const { admin, url } = await ownRedis();
    const { locks } = await startApp({ connection: open(`${url}/99`) });
    for (let i = 0; i < 2; i += 1) {
      const error = await rejection<LockStoreError>(locks.acquire('key', { waitMs: 10_000 }));
      expect(error).toMatchObject({ code: 'LOCK_STORE', retryable: false, wasSent: false });
      expect(error.message).toMatch(/DB index is out of range.*give another `db`/);
      if (!isSilentAboutSelect) await untilListening(admin);
    }
    expect(await locksIn(url, 0)).toEqual([]);
  });

  itLikeIoredis('serves its locks when a script of another client no longer blocks its SELECT (BUSY)', async () => {
    const { admin, url, port } = await ownRedis(['--busy-reply-threshold', '50']);
    const killer = openAdmin(url);
    await killer.ping();
    const endless = admin.eval('while true do end', 0).catch(() => undefined);
    await eventually(async () => (await killer.ping().catch(String)).includes('BUSY'));
    const options = { port, db: 5, enableReadyCheck: false };
    const own = await startApp({ connection: options });
    const given = await startApp({ connection: givenIoredis(url, options) });
    const both = [own, given].map(({ locks }) => locks);
    for (const locks of both) {
      expect((await rejection(locks.acquire('busy', { waitMs: 300 }))).message).toContain('BUSY');
    }
    await killer.script('KILL');
    await endless;
    for (const locks of both) await locks.withLock('after', LEASE, () => undefined);
    expect([await locksIn(url, 0), await locksIn(url, 5)]).toEqual([[], ['lock:after']]);
  });

  itLikeIoredis('serves no lock once its application has selected it with a given client', async () => {
    const { url } = await ownRedis();
    const client = await clientIn(3, url);
    const { locks } = await startApp({ connection: client.client });
    await locks.withLock('before', LEASE, () => undefined);
    for (const wrong of [99, 3]) await client.select(wrong).catch(() => undefined);
    await locks.withLock('between', LEASE, () => undefined);
    await client.select(99).catch(() => undefined);
    expect((await rejection(locks.acquire('after', LEASE))).message).toContain('DB index is out of range');
    expect([await locksIn(url, 0), await locksIn(url, 3)]).toEqual([[], ['lock:before', 'lock:between']]);
  });

  it('serves no lock behind Sentinel', async () => {
    const { connection, master } = await ownSentinels();
    const { locks } = await startApp({ connection: { ...connection, db: 99 } });
    for (let i = 0; i < 2; i += 1) {
      expect((await rejection(locks.acquire('key', { waitMs: 5_000 }))).message).toContain('DB index is out of range');
      if (!isSilentAboutSelect) await untilListening(openAdmin(master.url));
    }
    expect(await locksIn(master.url, 0)).toEqual([]);
  });

  it('takes its vote from the node of a quorum', async () => {
    const servers = [await ownRedis(), await ownRedis(), await ownRedis(['--databases', '2'])];
    const { locks } = await startApp({ connection: servers.map(({ url }) => `${url}/5`) });
    if (!isSilentAboutSelect) await untilListening(servers[2]!.admin);
    const held = await locks.acquire('key', LEASE);
    expect(await Promise.all(servers.map(({ url }) => locksIn(url, 0)))).toEqual([[], [], []]);
    expect([await locksIn(servers[0]!.url, 5), await locksIn(servers[1]!.url, 5)]).toEqual([
      ['lock:key'],
      ['lock:key'],
    ]);
    await held.release();
  });

  it('confirms no grant by replicas', async () => {
    const { admin, url, ofUser } = await withUser((await startReplicated()).master);
    const { locks } = await startApp({ connection: ofUser, minReplicas: 1 });
    await locks.isLocked('key');
    await admin.call('ACL', 'SETUSER', 'app', '-select');
    for (let i = 0; i < 2; i += 1) {
      expect((await rejection(locks.acquire('key', { waitMs: 0 }))).message).toContain('NOPERM');
    }
    expect(await locksIn(url, 0)).toEqual([]);
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
