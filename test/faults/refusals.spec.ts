import { inspect } from 'node:util';
import { type LockLostError, type LockStoreError } from '../../lib/index.js';
import { startCluster, type StartedCluster } from '../../scripts/topologies.mjs';
import { keyOn } from '../support/redis/cluster-slots.js';
import { eventually } from '../support/waiting/eventually.js';
import { ownRedis } from '../support/redis/own-redis.js';
import { closeAll, freshKey, startApp } from '../support/apps/lock-app.js';
import { rejection } from '../support/waiting/rejection.js';
import { deadlineOf, grantedAt } from '../support/redis/records.js';

afterEach(closeAll);

/** A call that retries until the error says that a retry cannot help. */
const PATIENT = { waitMs: Infinity };
const BRIEF = { waitMs: 2_000 };
const USE_CLUSTER = 'use `connection: { cluster: [...] }`';

describe('a single client of a node of a cluster', () => {
  let cluster: StartedCluster;
  beforeAll(async () => void (cluster = await startCluster()), 60_000);
  afterAll(() => cluster.stop());

  it('is advised at once to use a cluster, for a key of another node (MOVED)', async () => {
    const { locks } = await startApp({ connection: cluster.masters[0]!.url });
    const error = await rejection<LockStoreError>(locks.acquire(keyOn(1), PATIENT));
    expect(error).toMatchObject({ code: 'LOCK_STORE', retryable: false, cause: { name: 'ReplyError' } });
    expect(error.message).toContain('MOVED');
    expect(error.message).toContain(USE_CLUSTER);
    expect((await rejection(locks.inspect(keyOn(2)))).message).toContain(USE_CLUSTER);
    await (await locks.acquire(keyOn(0), PATIENT)).release();
  });

  it('is advised to use a cluster, and asks again, while the cluster is down (CLUSTERDOWN)', async () => {
    const busPort = String(20_000 + Math.floor(Math.random() * 10_000));
    const { url } = await ownRedis(['--cluster-enabled', 'yes', '--cluster-port', busPort]);
    const { locks } = await startApp({ connection: url });
    const error = await rejection<LockStoreError>(locks.acquire(freshKey(), BRIEF));
    expect(error).toMatchObject({ code: 'LOCK_STORE', retryable: true });
    expect(error.message).toContain('CLUSTERDOWN');
    expect(error.message).toContain(USE_CLUSTER);
  });
});

describe('the error names what Redis answered and what to do:', () => {
  it('OOM', async () => {
    const { url } = await ownRedis(['--maxmemory', '1mb', '--maxmemory-policy', 'noeviction']);
    const { locks } = await startApp({ connection: url });
    const key = freshKey();
    const { message } = await rejection(locks.acquire(key, BRIEF));
    expect(message).toMatch(/OOM.*raise its `maxmemory`/);
    expect(message.split(key)).toHaveLength(2);
    expect(message).not.toMatch(/reachable|user_script/);
  });

  it('READONLY', async () => {
    const [master, replica] = [await ownRedis(), await ownRedis()];
    await replica.admin.call('REPLICAOF', '127.0.0.1', master.port);
    await eventually(async () => (await replica.admin.info('replication')).includes('master_link_status:up'));
    const { locks } = await startApp({ connection: replica.url });
    const { message } = await rejection(locks.acquire(freshKey(), BRIEF));
    expect(message).toMatch(/READONLY.*connect to its master/);
    expect(message).not.toMatch(/reachable|user_script/);
  });

  it.each([
    ['with fields', { v: '1', token: '1700000000000000', released: ';', writes: '0' }],
    ['in one text', { s: '11700000000000000', released: ';' }],
  ])('OLDDATA, of a lock of version 1 %s', async (_form, hash) => {
    const { admin, url } = await ownRedis();
    const key = freshKey();
    await admin.hset(`lock:${key}`, hash);
    const { locks } = await startApp({ connection: url });
    const calls = [locks.acquire(key, PATIENT), locks.acquire([key, freshKey()], PATIENT), locks.inspect(key)];
    for (const error of await Promise.all(calls.map((call) => rejection<LockStoreError>(call)))) {
      expect(error).toMatchObject({ code: 'LOCK_STORE', retryable: false });
      expect(error.message).toMatch(/OLDDATA.*An earlier version has written this lock: wait for `keepMs`/);
      expect(error.message).not.toContain('user_script');
    }
    expect(await admin.hgetall(`lock:${key}`)).toEqual(hash);
  });
});

describe('the advice of ioredis', () => {
  it('is not part of an error while Redis is away', async () => {
    const server = await ownRedis();
    const { locks } = await startApp({ connection: server.url });
    await locks.withLock(freshKey(), () => undefined);
    const asked = Array.from({ length: 20 }, () => rejection(locks.inspect(freshKey())).catch(() => undefined));
    await server.kill();
    const errors = [...(await Promise.all(asked)), await rejection(locks.acquire(freshKey(), BRIEF))];
    expect(inspect(errors, { depth: 9 })).not.toMatch(/maxRetriesPerRequest|enableOfflineQueue/);
  });
});

const IN_TIME = { timeoutMs: 40_000 };

async function startTwo(...args: string[]) {
  const { admin, url } = await ownRedis(args);
  return { admin, a: await startApp({ connection: url }), b: await startApp({ connection: url }), key: freshKey() };
}

describe('a lock whose key an operator touches', () => {
  it('ends with its lease when an operator removed its time to live', async () => {
    const { admin, a, b, key } = await startTwo();
    const held = await a.locks.acquire(key, { leaseMs: 1_500, renew: false });
    expect(await admin.persist(`lock:${key}`)).toBe(1);
    const deadline = await deadlineOf([admin], key);
    const next = await b.locks.acquire(key, { leaseMs: 3_600_000, waitMs: 25_000 });
    expect(grantedAt(next)).toBeGreaterThanOrEqual(deadline);
    expect(next.fencingToken).toBeGreaterThan(held.fencingToken);
    // A lease that ends later than the time to live that was set before sets it again.
    expect(await admin.pttl(`lock:${key}`)).toBeGreaterThan(0);
  });

  it('notifies the holder of a lock whose key was made to expire', async () => {
    const { admin, a, b, key } = await startTwo();
    const held = await a.locks.acquire(key, { leaseMs: 9_000 });
    await admin.pexpire(`lock:${key}`, 1);
    await eventually(async () => (await admin.exists(`lock:${key}`)) === 0);
    const next = await b.locks.acquire(key);
    await eventually(() => held.signal.aborted, IN_TIME);
    expect((held.signal.reason as LockLostError).reason).toBe('taken');
    expect(next.fencingToken).toBeGreaterThan(held.fencingToken);
  });

  it('notifies the holder of a lock that was evicted', async () => {
    // Nothing but the lock can go: the rest has no time to live.
    const { admin, a, key } = await startTwo('--maxmemory-policy', 'volatile-ttl');
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
    await eventually(() => held.signal.aborted, IN_TIME);
    expect((held.signal.reason as LockLostError).reason).toBe('expired');
    const next = await a.locks.acquire(key);
    expect(next.fencingToken).toBeGreaterThan(held.fencingToken);
  });
});
