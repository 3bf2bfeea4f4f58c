import { type Redis } from 'ioredis';
import { type RedisConnection } from '../../../lib/index.js';
import { openCluster, startClusterNode } from '../../support/redis/cluster-node.js';
import { withKeyPrefix } from '../../support/redis/connections.js';
import { ownRedis } from '../../support/redis/own-redis.js';
import { closeAll, startApp } from '../../support/apps/lock-app.js';

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
