import { RESP_TYPES } from 'redis';
import { type RedisConnection } from '../../lib/index.js';
import { closeAll, freshKey, startApp } from '../support/apps/lock-app.js';
import { LIBRARY, itOnNodeRedis } from '../support/clients/library.js';
import { givenIoredis, givenNodeRedis } from '../support/redis/connections.js';
import { ownRedis } from '../support/redis/own-redis.js';
import { eventually } from '../support/waiting/eventually.js';
import { untilWaiting } from '../support/waiting/waiters.js';

/** A Buffer for each text of a reply, and a text for each number: as node-redis names them. */
const TYPE_MAPPING = { [RESP_TYPES.BLOB_STRING]: Buffer, [RESP_TYPES.NUMBER]: String };

const OF_NODE_REDIS: Record<string, object> = {
  'that queues nothing': { disableOfflineQueue: true },
  'that queues little': { commandsQueueMaxLength: 100 },
  'that maps the types of replies': { commandOptions: { typeMapping: TYPE_MAPPING } },
  'with a time limit for commands': { commandOptions: { timeout: 200 } },
  'with urgent commands': { commandOptions: { asap: true } },
  'that pings': { pingInterval: 50 },
  'that speaks RESP2': { RESP: 2 },
  'that speaks RESP3': { RESP: 3 },
};

/** Our own connections have these options in the words of ioredis; node-redis refuses those that it has no counterpart for. */
const REFUSED_BY_NODE_REDIS = ['that returns numbers as strings', 'that returns the replies of RESP3'];

/** Some are not known to the types of every ioredis. */
const OPTIONS: Record<string, object> = {
  'that loses commands with its connection': { autoResendUnfulfilledCommands: false },
  'with a time limit for commands': { commandTimeout: 200 },
  'that queues nothing': { enableOfflineQueue: false },
  'that retries no command': { maxRetriesPerRequest: 0 },
  'that returns numbers as strings': { stringNumbers: true },
  'that sends commands in pipelines': { enableAutoPipelining: true },
  'that speaks RESP2': { protocol: 2 },
  'that returns the replies of RESP3': { protocol: 3, replyMapping: 'resp3' },
};

const optionsOf = (url: string, options: object) => ({ port: Number(new URL(url).port), ...options });
const isRefused = (name: string): boolean => LIBRARY === 'node-redis' && REFUSED_BY_NODE_REDIS.includes(name);

const CLIENTS: readonly { readonly name: string; readonly open: (url: string) => RedisConnection }[] = [
  ...Object.entries(LIBRARY === 'node-redis' ? OF_NODE_REDIS : OPTIONS).map(([name, options]) => ({
    name: `a given client ${name}`,
    open: (url: string) => (LIBRARY === 'node-redis' ? givenNodeRedis(url, options) : givenIoredis(url, options)),
  })),
  ...Object.entries(OPTIONS)
    .filter(([name]) => !isRefused(name))
    .map(([name, options]) => ({ name: `a connection ${name}`, open: (url: string) => optionsOf(url, options) })),
];

describe('locks with options of the client', () => {
  afterEach(closeAll);

  it.each(CLIENTS)(
    'are acquired, waited for and renewed, also when its connections are cut: $name',
    async ({ open }) => {
      const { admin, url } = await ownRedis();
      const [a, b] = [await startApp({ connection: open(url) }), await startApp({ connection: open(url) })];
      const key = freshKey();
      await a.locks.withLock(freshKey(), () => undefined);
      const held = await a.locks.acquire(key, { leaseMs: 3_000 });
      const next = b.locks.acquire(key, { waitMs: 30_000 });
      await untilWaiting(a, key);
      await admin.call('CLIENT', 'KILL', 'TYPE', 'normal');
      await held.extend(3_000).catch(() => held.extend(3_000));
      await admin.call('CLIENT', 'KILL', 'TYPE', 'pubsub');
      await eventually(async () => ((await admin.pubsub('CHANNELS', '*')) as string[]).length === 2);
      await held.release();
      const lock = await next;
      expect(lock.fencingToken).toBeGreaterThan(held.fencingToken);
      expect((await a.locks.inspect(key)).holders).toMatchObject([{ fencingToken: lock.fencingToken }]);
      await lock.release();
      expect(await a.locks.isLocked(key)).toBe(false);
    },
  );

  itOnNodeRedis.each(REFUSED_BY_NODE_REDIS)('are refused at the start on a connection %s', async (name) => {
    const connection = optionsOf('redis://127.0.0.1:6379', OPTIONS[name]!);
    await expect(startApp({ connection })).rejects.toThrow('node-redis has no counterpart for the option');
  });
});
