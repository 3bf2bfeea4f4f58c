import { setTimeout as sleep } from 'node:timers/promises';
import { type Redis } from 'ioredis';
import { type Lock, type LockStoreError } from '../../../lib/index.js';
import { eventually } from '../../support/waiting/eventually.js';
import { disconnect, isCommand, ownRedis, proxyTo, startReplicated } from '../../support/redis/own-redis.js';
import { closeAll, closeLater, freshKey, openAdmin, startApp } from '../../support/apps/lock-app.js';
import { hashOf } from '../../support/redis/records.js';
import { rejection } from '../../support/waiting/rejection.js';
import { type StartedCluster } from '../../../scripts/topologies.mjs';
import { beginMove, keyOn } from '../../support/redis/cluster-slots.js';
import { ownCluster } from '../../support/redis/own-topologies.js';

afterEach(closeAll);

/** Has a replica answer only now and then. */
function slow(replica: Awaited<ReturnType<typeof ownRedis>>, everyMs: number) {
  const isOver = new AbortController();
  const stops = (async () => {
    while (!isOver.signal.aborted) {
      await replica.kill('SIGSTOP');
      await sleep(everyMs);
      await replica.kill('SIGCONT');
      await sleep(50);
    }
  })();
  const close = async () => {
    isOver.abort();
    await stops;
  };
  return closeLater({ close });
}

const infoOf = async (admin: Redis, section: string) =>
  new Map((await admin.info(section)).split('\r\n').map((line) => line.split(':') as [string, string]));

describe('minReplicas', () => {
  it('grants what the replicas have confirmed, also to waiters', async () => {
    const { master, replicas } = await startReplicated(2);
    const options = { connection: master.url, minReplicas: 2 };
    const [a, b] = [await startApp(options), await startApp(options)];
    const key = freshKey();
    const lock = await a.locks.acquire(key);
    const holdsOf = async () => {
      const hashes = await Promise.all(replicas.map(({ admin }) => hashOf(admin, key)));
      return hashes.map((hash) => Object.keys(hash).filter((field) => field.startsWith('hold:')).length);
    };
    expect(await holdsOf()).toEqual([1, 1]);
    const waiting = b.locks.acquire(key, { waitMs: 20_000 });
    await eventually(async () => (await a.locks.inspect(key)).waiters === 1);
    await lock.release();
    const next = await waiting;
    const token = String(next.fencingToken);
    for (const { admin } of replicas) expect((await hashOf(admin, key))['token']).toBe(token);
    await next.release();
    const both = await a.locks.acquire([freshKey(), freshKey()]);
    await both.release();
  });

  it('gives back what too few replicas confirmed, and reports how many did', async () => {
    const { master, replicas } = await startReplicated(2);
    const options = { connection: master.url, minReplicas: 2, replicaTimeoutMs: 100 };
    const { locks } = await startApp(options);
    await locks.withLock(freshKey(), () => undefined);
    await replicas[0]!.kill('SIGSTOP');
    const key = freshKey();
    const error = await rejection<LockStoreError>(locks.acquire(key, { waitMs: 500 }));
    expect(error.message).toContain('Only 1 of 2 replicas confirmed');
    expect(error.message).toContain(key);
    await eventually(async () => !(await locks.isLocked(key)));
    const rest = await startApp({ ...options, minReplicas: 1 });
    await (await rest.locks.acquire(key)).release();
    await replicas[0]!.kill('SIGCONT');
    await (await locks.acquire(key, { waitMs: 30_000 })).release();
  }, 60_000);

  it('gives back what no replica confirmed when Redis is back, if the connection is lost at that moment', async () => {
    const server = await ownRedis();
    const proxy = await proxyTo(server.url);
    const { locks } = await startApp({ connection: proxy.url, minReplicas: 1, replicaTimeoutMs: 50, leaseMs: 600_000 });
    const key = freshKey();
    let isLost = false;
    proxy.dropNextReply((text) => {
      if (isLost || !isCommand('release')(text)) return false;
      isLost = true;
      disconnect(proxy);
      return false;
    });
    const error = await rejection<LockStoreError>(locks.acquire(key, { waitMs: 0 }));
    expect([isLost, error.name]).toEqual([true, 'LockStoreError']);
    const watcher = await startApp({ connection: server.url });
    expect(await watcher.locks.isLocked(key)).toBe(true);
    proxy.refuse(false);
    await eventually(async () => !(await watcher.locks.isLocked(key)));
  });

  it('does not hold up the renewals of other locks while replicas are silent', async () => {
    const { master, replicas } = await startReplicated(1);
    const options = { connection: master.url, minReplicas: 1, replicaTimeoutMs: 900 };
    const { locks, locker } = await startApp(options);
    const held = await locks.acquire(freshKey(), { leaseMs: 3_000 });
    await replicas[0]!.kill('SIGSTOP');
    // For longer than the lease.
    const refused = Array.from({ length: 20 }, () => rejection(locks.acquire(freshKey(), { waitMs: 5_000 })));
    const errors = await Promise.all(refused);
    for (const { message } of errors) expect(message).toMatch(/Only 0 of 1 replicas|no answer/);
    expect(held.held).toBe(true);
    await held.release();
    await eventually(() => locker.live.releasing === 0 && locker.live.timers === 0);
  });

  it('confirms the locks of many callers together while a replica is slow', async () => {
    const { master, replicas } = await startReplicated(1);
    // A command may take a quarter of the lease: less than the replica does.
    const options = { connection: master.url, minReplicas: 1, leaseMs: 4_000, replicaTimeoutMs: 3_900 };
    const { locks } = await startApp(options);
    await locks.withLock(freshKey(), () => undefined);
    const connections = async () => Number((await infoOf(master.admin, 'stats')).get('total_connections_received'));
    const before = await connections();
    const replica = slow(replicas[0]!, 1_200);
    const granted: string[] = [];
    const callFor = async (key: string) => {
      for (let call = 0; call < 4; call++) await locks.withLock(key, { waitMs: 30_000 }, () => granted.push(key));
    };
    await Promise.all(Array.from({ length: 6 }, () => callFor(freshKey())));
    await replica.close();
    expect(granted).toHaveLength(24);
    // None was cut.
    expect(await connections()).toBe(before);
  }, 60_000);
});

describe('a failover that lost the last writes', () => {
  it('does not turn fencing tokens back', async () => {
    const { master, replicas } = await startReplicated(1);
    const key = freshKey();
    const before = await startApp({ connection: master.url });
    const known = await before.locks.withLock(key, ({ fencingToken }) => fencingToken);
    await eventually(async () => {
      const hash = await hashOf(replicas[0]!.admin, key);
      // Also the release: without it, the next holder would wait for the lease of this one.
      return hash['token'] === String(known) && !Object.keys(hash).some((field) => field.startsWith('hold:'));
    });
    // Cut off: it looks for its master elsewhere.
    await replicas[0]!.admin.call('REPLICAOF', '127.0.0.1', 1);
    const lost = await before.locks.withLock(key, ({ fencingToken }) => fencingToken);
    expect(lost).toBeGreaterThan(known);
    expect((await hashOf(replicas[0]!.admin, key))['token']).toBe(String(known));
    await master.kill();
    await replicas[0]!.admin.call('REPLICAOF', 'NO', 'ONE');
    const after = await startApp({ connection: replicas[0]!.url });
    expect(await after.locks.withLock(key, ({ fencingToken }) => fencingToken)).toBeGreaterThan(lost);
  });
});

describe('grants that replicas confirm', () => {
  it('are confirmed after SCRIPT FLUSH, also when it comes between the acquire and its confirmation', async () => {
    const { master, replicas } = await startReplicated();
    const proxy = await proxyTo(master.url);
    const { locks } = await startApp({ connection: proxy.url, minReplicas: 1 });
    await locks.withLock(freshKey(), () => undefined);
    await master.admin.script('FLUSH');
    const first = await locks.acquire(freshKey());
    const key = freshKey();
    const sent: string[] = [];
    // Long enough for the server to flush its scripts while a command is on its way.
    proxy.delayMs = 200;
    proxy.dropNextReply((text) => {
      if (isCommand('acquire')(text) && text.includes(key)) {
        sent.push(text.split(' ')[0]!);
        if (sent.length === 2) master.admin.script('FLUSH').catch(() => undefined);
      }
      return false;
    });
    const second = await locks.acquire(key);
    // The acquire, and its confirmation, for which the script was gone.
    expect(sent).toEqual(['evalsha', 'evalsha']);
    for (const { key: name, fencingToken } of [first, second]) {
      expect((await hashOf(replicas[0]!.admin, name))['token']).toBe(String(fencingToken));
    }
  });
});

const LEASE_MS = 3_000;

const release = async (locks: readonly Lock[]) => void (await Promise.all(locks.map((lock) => lock.release())));

describe('minReplicas on a cluster', () => {
  it('confirms the keys that the client writes, whichever node has them', async () => {
    const cluster = await ownCluster({ replicas: 1 });
    const { locks } = await startApp({ connection: cluster.connection, minReplicas: 1, leaseMs: LEASE_MS });
    const held = await Promise.all(Array.from({ length: 24 }, () => locks.acquire(freshKey(), { waitMs: 10_000 })));
    const several = await locks.acquire([freshKey(), freshKey(), freshKey()]);
    const renewed = new Set<string>();
    locks.events.on('renewed', ({ key }) => renewed.add(key));
    await eventually(() => held.every(({ key }) => renewed.has(key)));
    expect(held.filter((lock) => lock.held)).toHaveLength(24);
    const stored = await Promise.all(cluster.masters.map(({ url }) => openAdmin(url).keys('*')));
    expect(stored.flat()).toHaveLength(27);
    expect(stored.flat().filter((name) => !name.startsWith('lock:'))).toEqual([]);
    await release([...held, several]);
  });

  it('grants the locks of a slot that moves (ASK, MOVED)', async () => {
    const cluster = await ownCluster({ replicas: 1 });
    const { locks } = await startApp({ connection: cluster.connection, minReplicas: 1, leaseMs: LEASE_MS });
    const key = keyOn(0);
    // The node has not loaded any script yet.
    const move = await beginMove(cluster, `lock:${key}`);
    const whileMoving = await locks.acquire(key, { waitMs: 0 });
    const source = openAdmin(cluster.masters[0]!.url);
    expect((await rejection(source.exists(`lock:${key}`))).message).toMatch(/^ASK /);
    await release([whileMoving]);
    const across = await locks.acquire(key, { waitMs: 0 });
    await move.end();
    const renewed = new Set<string>();
    locks.events.on('renewed', (event) => renewed.add(event.key));
    await eventually(() => renewed.has(key));
    await release([across]);
    const after = await locks.acquire(key, { waitMs: 0 });
    await release([after]);
  });

  it('uses the addresses of `natMap`, even where a node names its own (MOVED, ASK)', async () => {
    const cluster = await ownCluster({ replicas: 1 });
    const natMap = await hideAddresses(cluster);
    const connection = { ...cluster.connection, natMap };
    const [a, b] = [await startApp({ connection, minReplicas: 1 }), await startApp({ connection })];
    const held = await Promise.all(Array.from({ length: 24 }, () => a.locks.acquire(freshKey())));
    await release(held);
    const keys = [0, 1, 2].map(keyOn);
    for (const key of keys) {
      await release([await a.locks.acquire(key, { waitMs: 0 })]);
      const move = await beginMove(cluster, `lock:${key}`);
      await move.moveKey(`lock:${key}`);
      await release([await a.locks.acquire(key, { waitMs: 0 })]);
      await move.end();
      const lock = await a.locks.acquire(key, { waitMs: 0 });
      const waiting = b.locks.acquire(key, { waitMs: 20_000 });
      await eventually(async () => (await a.locks.inspect(key)).waiters === 1);
      await release([lock]);
      await release([await waiting]);
    }
  });
});

/** Has the nodes announce unreachable addresses to clients; returns the map that translates them. */
async function hideAddresses({ masters, replicas }: StartedCluster) {
  const nodes = [...masters, ...replicas];
  const admins = nodes.map(({ url }) => openAdmin(url));
  const hostOf = (port: number) => `node-${port}.invalid`;
  await Promise.all(admins.map((admin, i) => admin.config('SET', 'cluster-announce-hostname', hostOf(nodes[i]!.port))));
  await Promise.all(admins.map((admin) => admin.config('SET', 'cluster-preferred-endpoint-type', 'hostname')));
  const told = async (admin: (typeof admins)[number]) => JSON.stringify(await admin.cluster('SLOTS'));
  await eventually(async () =>
    (await Promise.all(admins.map(told))).every((slots) => nodes.every(({ port }) => slots.includes(hostOf(port)))),
  );
  return Object.fromEntries(nodes.map(({ port }) => [`${hostOf(port)}:${port}`, { host: '127.0.0.1', port }]));
}
