import { type LockStoreError } from '../../lib/index.js';
import { itLikeIoredis } from '../support/clients/library.js';
import { appClient } from '../support/redis/connections.js';
import { eventually } from '../support/waiting/eventually.js';
import { killConnections, ownRedis, startReplicated } from '../support/redis/own-redis.js';
import { ownSentinels } from '../support/redis/own-topologies.js';
import { closeAll, freshKey, openAdmin, startApp } from '../support/apps/lock-app.js';
import { rejection } from '../support/waiting/rejection.js';

afterEach(closeAll);

const LEASE = { leaseMs: 4_000, waitMs: 10_000 };

/** The locks of a database. */
async function locksIn(url: string, db: number): Promise<string[]> {
  const admin = openAdmin(`${url}/${db}`);
  return (await admin.keys('lock:*')).toSorted();
}

/** A server with a user that may do everything, and its URL for database 5. */
async function withUser(server?: Awaited<ReturnType<typeof ownRedis>>) {
  const { admin, url, port } = server ?? (await ownRedis());
  await admin.call('ACL', 'SETUSER', 'app', 'on', '>secret', '~*', '&*', '+@all');
  return { admin, url, ofUser: `redis://app:secret@127.0.0.1:${port}/5` };
}

describe('a database that the server refuses', () => {
  it('serves no lock whose user has lost the right to SELECT', async () => {
    const { admin, url, ofUser } = await withUser();
    const { locks } = await startApp({ connection: ofUser });
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
    expect(await locksIn(url, 0)).toEqual([]);
    await admin.call('ACL', 'SETUSER', 'app', '+select');
    await eventually(() => locks.withLock('after', { waitMs: 0 }, () => true).catch(() => false));
    expect([await locksIn(url, 0), await locksIn(url, 5)].map((names) => names.includes('lock:after'))).toEqual([
      false,
      true,
    ]);
  }, 60_000);

  it('serves no lock with a number that the server does not have', async () => {
    const { url } = await ownRedis();
    const { locks } = await startApp({ connection: `${url}/99` });
    for (let i = 0; i < 2; i += 1) {
      const error = await rejection<LockStoreError>(locks.acquire('key', { waitMs: 10_000 }));
      expect(error).toMatchObject({ code: 'LOCK_STORE', retryable: false, wasSent: false });
      expect(error.message).toMatch(/DB index is out of range.*give another `db`/);
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
    const { locks } = await startApp({ connection: options });
    expect((await rejection(locks.acquire('busy', { waitMs: 300 }))).message).toContain('BUSY');
    await killer.script('KILL');
    await endless;
    await locks.withLock('after', LEASE, () => undefined);
    expect([await locksIn(url, 0), await locksIn(url, 5)]).toEqual([[], ['lock:after']]);
  });

  it('serves no lock behind Sentinel', async () => {
    const { connection, master } = await ownSentinels();
    const { locks } = await startApp({ connection: { ...connection, db: 99 } });
    for (let i = 0; i < 2; i += 1) {
      expect((await rejection(locks.acquire('key', { waitMs: 5_000 }))).message).toContain('DB index is out of range');
    }
    expect(await locksIn(master.url, 0)).toEqual([]);
  });

  it('takes its vote from the node of a quorum', async () => {
    const servers = [await ownRedis(), await ownRedis(), await ownRedis(['--databases', '2'])];
    const { locks } = await startApp({ connection: servers.map(({ url }) => `${url}/5`) });
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
