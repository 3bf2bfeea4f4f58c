// The baseline: the shortest code that people write by hand, on one connection of ioredis.
import { createRequire } from 'node:module';
import { setTimeout as sleep } from 'node:timers/promises';

// The client that our own package runs on.
const { Cluster, Redis } = createRequire(new URL('../../package.json', import.meta.url))('ioredis');

const DELETE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";

export async function open({ port, connection, leaseMs, retryMs = 1 }) {
  const redis = connection ? new Cluster(connection.cluster) : new Redis(port, '127.0.0.1');
  redis.defineCommand('deleteOwn', { numberOfKeys: 1, lua: DELETE });
  let last = 0;
  return {
    async acquire(key) {
      const token = `${process.pid}:${++last}`;
      while ((await redis.set(key, token, 'PX', leaseMs, 'NX')) === null) await sleep(retryMs);
      return { key, token };
    },
    release: ({ key, token }) => redis.deleteOwn(key, token),
    close: () => redis.quit(),
  };
}
