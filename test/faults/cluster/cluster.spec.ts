import { connect, createServer, type Socket } from 'node:net';
import { createCluster } from 'redis';
import { type RedisLockModuleOptions } from '../../../lib/index.js';
import { itLikeIoredis, LIBRARY } from '../../support/clients/library.js';
import { beginMove, keyOn } from '../../support/redis/cluster-slots.js';
import { givenCluster, givenIoredisCluster } from '../../support/redis/connections.js';
import { eventually } from '../../support/waiting/eventually.js';
import { expectWoken, untilRenewed, untilWaiting } from '../../support/waiting/waiters.js';
import { closeAll, closeLater, freshKey, type LockApp, openAdmin, startApp } from '../../support/apps/lock-app.js';
import { ownRedis } from '../../support/redis/own-redis.js';
import { ownCluster } from '../../support/redis/own-topologies.js';
import { type StartedCluster } from '../../../scripts/topologies.mjs';
import { openCluster, startClusterNode } from '../../support/redis/cluster-node.js';
import { type LockStore } from '../../../lib/core/store/lock-store.js';
import { LOCK_STORE } from '../../../lib/redis-lock.tokens.js';
import { type StartedRedis } from '../../../scripts/redis.mjs';

afterEach(closeAll);

/** The address of an endpoint. What its nodes name without a host is at this address, and not on `localhost`. */
const ENDPOINT = '127.0.0.2';

/** A cluster that an app reaches at one endpoint, and a Redis that listens on this machine at the port that the second node announces. */
async function startBehindEndpoint(endpointType = 'unknown-endpoint') {
  const cluster = await ownCluster({ replicas: 0 });
  const decoy = await ownRedis();
  const ports = cluster.masters.map(({ port }, i) => ({ port, announced: i === 1 ? decoy.port : port }));
  for (const { port, announced } of ports) {
    const admin = openAdmin(`redis://127.0.0.1:${port}`);
    await admin.config('SET', 'cluster-preferred-endpoint-type', endpointType);
    await admin.config('SET', 'cluster-announce-port', announced);
    const sockets = new Set<Socket>();
    const server = createServer((socket) => {
      const node = connect(port, '127.0.0.1');
      for (const one of [socket, node]) sockets.add(one.on('error', () => undefined));
      socket.pipe(node).pipe(socket);
    });
    await new Promise<void>((resolve) => server.listen(announced, ENDPOINT, resolve));
    const close = async (): Promise<void> => {
      for (const one of sockets) one.destroy();
      server.close();
    };
    closeLater({ close });
  }
  const first = openAdmin(cluster.masters[0]!.url);
  await eventually(async () => JSON.stringify(await first.cluster('SLOTS')).includes(`,${decoy.port},`));
  return { cluster, decoy, connection: { cluster: [{ host: ENDPOINT, port: ports[0]!.port }] } };
}

async function start() {
  const cluster = await ownCluster({ replicas: 0 });
  const { connection } = cluster;
  const startApps = (count: number, more: RedisLockModuleOptions = {}) =>
    Promise.all(Array.from({ length: count }, () => startApp({ connection, ...more })));
  return { ...cluster, startApps };
}

describe('a cluster', () => {
  it('is reached through some of its nodes, or through a given client', async () => {
    const cluster = await start();
    const client = givenCluster(cluster.connection.cluster);
    const one = await startApp({ connection: { cluster: [cluster.connection.cluster[0]!] } });
    const other = await startApp({ connection: client });
    for (const n of [0, 1, 2]) {
      const key = keyOn(n);
      const lock = await one.locks.acquire(key);
      expect(await other.locks.tryAcquire(key)).toBeNull();
      await lock.release();
      await expectWoken(one, other, () => keyOn(n));
    }
  });

  it('locks keys of one tag in one command', async () => {
    const cluster = await start();
    const hashTag = (key: string) => (key.startsWith('order') ? key.split(':')[1] : undefined);
    const { locks } = (await cluster.startApps(1, { hashTag }))[0]!;
    const id = freshKey();
    const keys = [`order:${id}:stock`, `order:${id}:payment`, `order:${id}:{x}%`];
    const lock = await locks.acquire(keys);
    const admins = cluster.masters.map(({ url }) => openAdmin(url));
    const stored = (await Promise.all(admins.map((admin) => admin.keys('*')))).filter((names) => names.length > 0);
    expect(stored.map((names) => names.sort())).toEqual([
      [`lock:{${id}}order:${id}:payment`, `lock:{${id}}order:${id}:stock`, `lock:{${id}}order:${id}:%7Bx%7D%25`].sort(),
    ]);
    const listed: string[] = [];
    for await (const state of locks.list({ prefix: `order:${id}` })) listed.push(state.key);
    expect(listed.sort()).toEqual([...keys].sort());
    expect(await locks.tryAcquire(keys[1]!)).toBeNull();
    await lock.release();
    expect(await locks.isLocked(keys[0]!)).toBe(false);
  });

  it('keeps holds and serves waiters while the slot moves (MOVED, ASK)', async () => {
    const cluster = await start();
    const [a, b, c] = (await cluster.startApps(3)) as [LockApp, LockApp, LockApp];
    const key = keyOn(0);
    const lock = await a.locks.acquire(key, { leaseMs: 4_000 });
    const waiting = b.locks.acquire(key, { waitMs: 20_000, leaseMs: 4_000 });
    await eventually(async () => (await a.locks.inspect(key)).waiters === 1);
    const move = await beginMove(cluster, `lock:${key}`);
    await move.moveKey(`lock:${key}`);
    // Its key is where the slot is not yet: ASK.
    await untilRenewed(a, 2);
    expect(await c.locks.tryAcquire(key)).toBeNull();
    await move.end();
    await lock.extend(1_000);
    await lock.release();
    const next = await waiting;
    expect(next.fencingToken).toBeGreaterThan(lock.fencingToken);
    expect(await c.locks.tryAcquire(key)).toBeNull();
    await next.release();
    await (await c.locks.acquire(key)).release();
  });

  it('locks several keys of a moving slot once all of them have arrived (TRYAGAIN)', async () => {
    const cluster = await start();
    const hashTag = () => 'one';
    const [a, b] = (await cluster.startApps(2, { hashTag })) as [LockApp, LockApp];
    const keys = [freshKey(), freshKey()];
    await (await a.locks.acquire(keys)).release();
    const move = await beginMove(cluster, '{one}');
    await move.moveKey(`lock:{one}${keys[0]}`);
    const both = b.locks.acquire(keys, { waitMs: 20_000 });
    const single = await a.locks.acquire(keys[0]!);
    await single.release();
    let isGranted = false;
    void both.then(() => (isGranted = true));
    await (await a.locks.acquire(keys[1]!)).release();
    expect(isGranted).toBe(false);
    await move.end();
    const lock = await both;
    expect(lock.fencingTokens[0]).toBeGreaterThan(single.fencingToken);
    await lock.release();
  });

  it.each(['MOVED', 'ASK'])(
    'that names no hosts is reached at the host that was asked, also by a redirection (%s)',
    async (kind) => {
      const { cluster, decoy, connection } = await startBehindEndpoint();
      const { locks } = await startApp({ connection, minReplicas: 0 });
      for (const n of [0, 1, 2]) await (await locks.acquire(keyOn(n))).release();
      const key = keyOn(0);
      const { end } = await beginMove(cluster, `lock:${key}`);
      if (kind === 'MOVED') await end();
      const lock = await locks.acquire(key);
      const target = openAdmin(cluster.masters[1]!.url);
      await target.call('ASKING');
      expect(await target.exists(`lock:${key}`)).toBe(1);
      expect(await decoy.admin.dbsize()).toBe(0);
      await lock.release();
    },
  );
});

/** A client whose application reads from replicas. */
async function readingFromReplicas({ connection }: StartedCluster) {
  if (LIBRARY !== 'node-redis') return givenIoredisCluster(connection.cluster, { scaleReads: 'slave' });
  // node-redis writes to the objects that it is given.
  const rootNodes = connection.cluster.map((socket) => ({ socket: { ...socket } }));
  const client = createCluster({ rootNodes, useReplicas: true });
  client.on('error', () => undefined);
  closeLater({ close: async () => client.destroy() });
  return client.connect();
}

/** `a` sees at once what `b` does to a lock, and is granted it next. */
async function takeTurns(a: LockApp, b: LockApp): Promise<void> {
  const key = freshKey();
  const held = await b.locks.acquire(key);
  expect(await a.locks.isLocked(key)).toBe(true);
  expect(await a.locks.tryAcquire(key)).toBeNull();
  const waiting = a.locks.acquire(key, { waitMs: 20_000 });
  await untilWaiting(a, key);
  await held.release();
  const next = await waiting;
  expect(next.fencingToken).toBeGreaterThan(held.fencingToken);
  await next.release();
  expect(await a.locks.isLocked(key)).toBe(false);
}

describe('a cluster client of the application', () => {
  it('that reads from replicas reads the state of a lock from its master', async () => {
    const cluster = await ownCluster();
    const client = await readingFromReplicas(cluster);
    const [a, b] = [await startApp({ connection: client }), await startApp({ connection: cluster.connection })];
    for (let i = 0; i < 6; i += 1) await takeTurns(a, b);
    const replicas = cluster.replicas.map(({ url }) => openAdmin(url));
    const ran = async (command: string) => {
      const infos = await Promise.all(replicas.map((replica) => replica.info('commandstats')));
      return infos.some((info) => info.includes(`cmdstat_${command}:calls=`));
    };
    expect([await ran('evalsha'), await ran('eval')]).toEqual([false, false]);
    // What the application reads comes from them.
    await eventually(async () => {
      await client.get(freshKey());
      return ran('get');
    });
  });

  it('that connects lazily hears messages', async () => {
    const { admin, port } = await startClusterNode();
    const { locks } = await startApp({ connection: openCluster(port, { lazyConnect: true }) });
    await locks.withLock(freshKey(), () => undefined);
    await eventually(async () => ((await admin.pubsub('CHANNELS', '*')) as string[]).length === 1);
  });

  itLikeIoredis('that sends commands in pipelines serves locks on all masters at once', async () => {
    const cluster = await ownCluster({ replicas: 0 });
    const connection = givenIoredisCluster(cluster.connection.cluster, { enableAutoPipelining: true });
    const [a, b] = [await startApp({ connection }), await startApp({ connection: cluster.connection })];
    await Promise.all(Array.from({ length: 12 }, () => takeTurns(a, b)));
  });
});

type Node = Pick<StartedRedis, 'port' | 'url'> & { readonly admin: ReturnType<typeof openAdmin> };

async function startNodes() {
  const cluster = await ownCluster();
  const nodes = [...cluster.masters, ...cluster.replicas].map(({ port, url }) => ({
    port,
    url,
    admin: openAdmin(url),
  }));
  return { cluster, nodes };
}

/** To which of the nodes an app listens. */
async function nodeOf(nodes: readonly Node[], { app }: LockApp): Promise<Node | undefined> {
  const channel = `lock:wake:${app.get<LockStore>(LOCK_STORE).clientId}`;
  for (const node of nodes) {
    const channels = (await node.admin.pubsub('CHANNELS', '*').catch(() => [])) as string[];
    if (channels.includes(channel)) return node;
  }
  return undefined;
}

/** An app that listens to a replica: each one takes any node. */
async function appOnReplica({ connection, replicas }: StartedCluster, nodes: readonly Node[]) {
  for (;;) {
    const app = await startApp({ connection: { ...connection, slotsRefreshInterval: 200 } });
    const node = await eventually(() => nodeOf(nodes, app));
    const replica = replicas.find(({ port }) => port === node.port);
    if (replica) return { app, node, replica };
  }
}

describe('the subscriber of a cluster', () => {
  it('moves to another node when its node dies', async () => {
    const { cluster, nodes } = await startNodes();
    const { app, node, replica } = await appOnReplica(cluster, nodes);
    const holder = await startApp({ connection: cluster.connection });
    await expectWoken(holder, app);
    await replica.kill();
    const others = nodes.filter((other) => other !== node);
    await eventually(() => nodeOf(others, app));
    await expectWoken(holder, app);
  });

  it('moves to another node when its node leaves the cluster and stays up', async () => {
    const { cluster, nodes } = await startNodes();
    const { app, node } = await appOnReplica(cluster, nodes);
    const holder = await startApp({ connection: cluster.connection });
    const id = await node.admin.cluster('MYID');
    const others = nodes.filter((other) => other !== node);
    await node.admin.call('CLUSTER', 'RESET', 'HARD');
    for (const { admin } of others) await admin.call('CLUSTER', 'FORGET', id);
    await eventually(() => nodeOf(others, app));
    await expectWoken(holder, app);
  });
});
