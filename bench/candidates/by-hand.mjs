// The baseline: the shortest code by hand, on one connection of a client library.
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

export async function open({ library = 'ioredis', leaseMs, retryMs = 1, isOurs, isList, ...server }) {
  if (isOurs) return openOurCommands({ leaseMs, ...server });
  if (isList) return openList(server);
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

/** Sends the commands of our package for a free lock, without the code around them. */
async function openOurCommands({ port, leaseMs }) {
  const { Redis } = require('ioredis');
  const redis = new Redis(port, '127.0.0.1');
  const [acquire, release] = await commandsOfOurs({ port, leaseMs });
  const [, , ownKey, sentMicros, untilMicros, own] = acquire;
  const ownAttempt = own.split(/\s/)[1];
  const prefix = ownKey.slice(0, -KEY.length);
  let last = 0;
  /** The same command, for another key and attempt. */
  const send = async (words, key, attempt, ...times) => {
    const [sha1, keys, , , , , terms] = words;
    const reply = await redis.evalsha(sha1, keys, prefix + key, ...times, `1 ${attempt}\n`, terms);
    if (!EXPECTED_REPLY.test(reply)) throw new Error(`Our commands got the answer ${JSON.stringify(reply)}.`);
  };
  return {
    async acquire(key) {
      const attempt = ownAttempt.slice(0, -6) + String(++last % 1e6).padStart(6, '0');
      // A time of the server that has certainly passed, as ours sends it: a command from the future is refused.
      const passed = (Date.now() - 1_000) * 1_000;
      await send(acquire, key, attempt, passed, passed + untilMicros - sentMicros);
      return { key, attempt };
    },
    release: ({ key, attempt }) => send(release, key, attempt, 0, 0),
    close: () => redis.quit(),
  };
}

const KEY = 'bench:our-commands';
/** A list for a new lock, otherwise a text. */
const EXPECTED_REPLY = /^(granted|released)[ ,]/;

/** The arguments of EVALSHA with which our package acquires and releases a lock. */
async function commandsOfOurs(options) {
  const { open: openOurs } = await import('./ours.mjs');
  const { Redis } = require('ioredis');
  const sent = [];
  const send = Reflect.get(Redis.prototype, 'sendCommand');
  Redis.prototype.sendCommand = function (command, ...rest) {
    if (command.name === 'evalsha') sent.push(command.args);
    return send.call(this, command, ...rest);
  };
  const ours = await openOurs(options);
  // The first commands load the scripts.
  for (let i = 0; i < 2; i++) await ours.release(await ours.acquire(KEY));
  await ours.close();
  Redis.prototype.sendCommand = send;
  return sent.slice(-2);
}

/** One caller in each process. */
async function openList({ port }) {
  const { Redis } = require('ioredis');
  const redis = new Redis(port, '127.0.0.1');
  return {
    async acquire(key) {
      if (await redis.set(`${key}:made`, '1', 'NX')) await redis.lpush(key, 'token');
      while ((await redis.blpop(key, 1)) === null);
      return key;
    },
    release: (key) => redis.lpush(key, 'token'),
    close: () => redis.quit(),
  };
}
