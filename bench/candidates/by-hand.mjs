// The baseline: the shortest code that people write by hand, on one connection of a library of clients.
import { createRequire } from 'node:module';
import { setTimeout as sleep } from 'node:timers/promises';

// The clients that our own package runs on.
const require = createRequire(new URL('../../package.json', import.meta.url));

const DELETE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";

/** `set` resolves null when the key is taken. */
const CLIENTS = {
  ioredis({ port, connection }) {
    const { Cluster, Redis } = require('ioredis');
    const redis = connection ? new Cluster(connection.cluster) : new Redis(port, '127.0.0.1');
    redis.defineCommand('deleteOwn', { numberOfKeys: 1, lua: DELETE });
    return {
      set: (key, token, leaseMs) => redis.set(key, token, 'PX', leaseMs, 'NX'),
      deleteOwn: (key, token) => redis.deleteOwn(key, token),
      close: () => redis.quit(),
    };
  },
  async 'node-redis'({ port }) {
    const { createClient, defineScript } = require('redis');
    const deleteOwn = defineScript({
      SCRIPT: DELETE,
      NUMBER_OF_KEYS: 1,
      parseCommand(parser, key, token) {
        parser.pushKey(key);
        parser.push(token);
      },
      transformReply: (reply) => reply,
    });
    const redis = createClient({ url: `redis://127.0.0.1:${port}`, scripts: { deleteOwn } });
    redis.on('error', () => {});
    await redis.connect();
    return {
      set: (key, token, leaseMs) => redis.set(key, token, { PX: leaseMs, NX: true }),
      deleteOwn: (key, token) => redis.deleteOwn(key, token),
      close: () => redis.close(),
    };
  },
};

export async function open({ library = 'ioredis', leaseMs, retryMs = 1, ...server }) {
  const redis = await CLIENTS[library](server);
  let last = 0;
  return {
    async acquire(key) {
      const token = `${process.pid}:${++last}`;
      while ((await redis.set(key, token, leaseMs)) === null) await sleep(retryMs);
      return { key, token };
    },
    release: ({ key, token }) => redis.deleteOwn(key, token),
    close: redis.close,
  };
}
