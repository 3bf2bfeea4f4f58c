import { type Lock, LockStoreError, type RedisConnection } from '../../../lib/index.js';
import { type StartedCluster } from '../../../scripts/topologies.mjs';
import { keyOn } from '../../support/redis/cluster-slots.js';
import { startClusterNode, openCluster } from '../../support/redis/cluster-node.js';
import { withGiven } from '../../support/clients/library.js';
import { givenCluster, withKeyPrefix } from '../../support/redis/connections.js';
import { eventually } from '../../support/waiting/eventually.js';
import { proxyTo, ownRedis } from '../../support/redis/own-redis.js';
import { keysOf } from '../../support/apps/listed.js';
import { type LockApp, closeAll, freshKey, startApp } from '../../support/apps/lock-app.js';
import { rejection } from '../../support/waiting/rejection.js';
import { ownCluster } from '../../support/redis/own-topologies.js';
import { type Redis } from 'ioredis';

const CLIENTS: [string, (cluster: StartedCluster) => RedisConnection][] = [
  ['a given cluster', ({ connection }) => givenCluster(connection.cluster)],
  ['a cluster of its own', ({ connection }) => connection],
];

/** Stops a node, and has `app` hold a lock on each of the masters, one of which was a replica. */
async function hang(cluster: StartedCluster, app: LockApp, during: (keys: string[]) => Promise<void>): Promise<void> {
  const keys = [0, 1, 2].map(keyOn).toSorted();
  for (const key of keys) await app.locks.withLock(key, () => undefined);
  const { pid } = cluster.masters[1]!;
  process.kill(pid, 'SIGSTOP');
  try {
    const acquire = (key: string) => app.locks.acquire(key, { waitMs: 4_000, leaseMs: 60_000 });
    const held: Lock[] = [];
    for (const key of keys) held.push(await eventually(() => acquire(key), { timeoutMs: 60_000 }));
    await during(keys);
    for (const lock of held) await lock.release();
  } finally {
    process.kill(pid, 'SIGCONT');
  }
}

describe('list', () => {
  afterEach(closeAll);

  it.each(withGiven(CLIENTS))(
    'includes the locks that a replica serves in place of a hanging node (%s)',
    async (_name, open) => {
      const cluster = await ownCluster({ replicas: 1 });
      const app = await startApp({ connection: open(cluster) });
      await hang(cluster, app, async (keys) => expect(await keysOf(app)).toEqual(keys));
    },
    120_000,
  );

  it.each(withGiven(CLIENTS))(
    'notices by itself that a node hangs, and asks its replica (%s)',
    async (_name, open) => {
      const cluster = await ownCluster({ replicas: 1 });
      const app = await startApp({ connection: open(cluster) });
      const other = await startApp({ connection: cluster.connection });
      expect(await keysOf(app)).toEqual([]);
      // Whether the first call knows in time that the node is silent is a matter of a millisecond.
      const list = () => keysOf(app).catch(() => keysOf(app));
      await hang(cluster, other, async (keys) => expect(await list()).toEqual(keys));
    },
    120_000,
  );

  it('waits for all nodes when it is the first command', async () => {
    const cluster = await ownCluster({ replicas: 0 });
    const holder = await startApp({ connection: cluster.connection });
    const keys = [0, 1, 2].map(keyOn);
    const held = await Promise.all(keys.map((key) => holder.locks.acquire(key)));
    const seed = await proxyTo(cluster.masters[0]!.url);
    seed.delayMs = 50;
    const app = await startApp({ connection: { cluster: [{ host: '127.0.0.1', port: seed.port }] } });
    expect(await keysOf(app)).toEqual(keys.toSorted());
    await Promise.all(held.map((lock) => lock.release()));
  });

  it('rejects when no node can be reached, rather than end without locks', async () => {
    const node = await startClusterNode();
    const app = await startApp({ connection: { cluster: [{ host: '127.0.0.1', port: node.port }] } });
    const held = await app.locks.acquire(freshKey());
    await node.stop();
    expect(await rejection(keysOf(app))).toBeInstanceOf(LockStoreError);
    await held.release().catch(() => undefined);
  });
});

/** Starts a Redis, and gives a way to reach it with a key prefix of the client, and one without. */
type Start = () => Promise<{ admin: Redis; prefixed: RedisConnection; plain: RedisConnection }>;

const clusterWith = async (options: Parameters<typeof openCluster>[1]) => {
  const { admin, port } = await startClusterNode();
  return { admin, prefixed: openCluster(port, options), plain: openCluster(port) };
};

async function clientWithPrefix() {
  const { admin, url } = await ownRedis();
  return { admin, prefixed: withKeyPrefix(url, 'app[1]:'), plain: url };
}

const STARTS: readonly [string, Start][] = [
  ['of a client', clientWithPrefix],
  ['of a cluster', () => clusterWith({ keyPrefix: 'app[1]:' })],
  ['of the nodes of a cluster', () => clusterWith({ redisOptions: { keyPrefix: 'app[1]:' } })],
];

describe('list with a `keyPrefix` of the client', () => {
  afterEach(closeAll);

  it.each(STARTS)('%s yields the locks under the prefix by their keys, and no others', async (_whose, start) => {
    const { admin, prefixed, plain } = await start();
    const [a, b] = [await startApp({ connection: prefixed }), await startApp({ connection: plain })];
    const keysOf = async ({ locks }: typeof a, prefix = '') => {
      const keys: string[] = [];
      for await (const { key, holders } of locks.list({ prefix })) keys.push(`${key} ${holders.length}`);
      return keys.toSorted();
    };
    // Kept, because a handle that nobody keeps is released.
    const held = await Promise.all(['order:1', 'order:{2}', 'user:1'].map((key) => a.locks.acquire(key)));
    held.push(await b.locks.acquire('order:3'));
    expect([await admin.exists('app[1]:lock:order:1'), await admin.exists('lock:order:1')]).toEqual([1, 0]);
    expect(await keysOf(a)).toEqual(['order:1 1', 'order:{2} 1', 'user:1 1']);
    expect(await keysOf(a, 'order:')).toEqual(['order:1 1', 'order:{2} 1']);
    expect(await keysOf(b)).toEqual(['order:3 1']);
    await Promise.all(held.map((lock) => lock.release()));
  });
});
