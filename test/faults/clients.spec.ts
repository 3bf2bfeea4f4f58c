import { type Redis } from 'ioredis';
import { RESP_TYPES } from 'redis';
import { type RedisConnection } from '../../lib/index.js';
import { closeAll, freshKey, openAdmin, startApp } from '../support/apps/lock-app.js';
import { itOnNodeRedis, LIBRARY } from '../support/clients/library.js';
import {
  type AppClient,
  appClient,
  givenBySentinels,
  givenCluster,
  givenIoredis,
  givenNodeRedis,
} from '../support/redis/connections.js';
import { ownRedis } from '../support/redis/own-redis.js';
import { ownCluster, ownSentinels } from '../support/redis/own-topologies.js';
import { eventually } from '../support/waiting/eventually.js';
import { spyOnLogs } from './security/support.js';
import { untilRenewed, untilWaiting } from '../support/waiting/waiters.js';

afterEach(closeAll);

type Client = AppClient['client'];
type Act = (app: AppClient) => unknown;

/** What an application may do with its client while a lock is held. */
const ACTS: Record<string, Act> = {
  'quits it': (app) => app.quit(),
  'disconnects it': (app) => app.disconnect(),
  'selects another database': (app) => app.select(5),
  'subscribes by it': (app) => (app.client as unknown as Redis).subscribe('news', () => undefined),
  'begins a transaction by it (MULTI)': (app) => app.send('MULTI'),
  // It is never answered.
  'blocks it (BLPOP)': (app) => void app.send('BLPOP', 'jobs', '0').catch(() => undefined),
  'sets a key prefix': ({ client }) => void Object.assign(optionsOf(client), { keyPrefix: 'shop:' }),
  'sets a time limit for commands': ({ client }) =>
    void Object.assign(optionsOf(client), { commandTimeout: 1, commandOptions: { timeout: 1 } }),
};

const optionsOf = (client: Client): object => (client as unknown as { readonly options: object }).options;

/** The connections of a server that belong to neither the application nor the test, by their ids. */
async function connectionsOf(admin: Redis, ofApp: unknown): Promise<string[]> {
  const lines = String(await admin.call('CLIENT', 'LIST')).split('\n');
  const ids = lines.flatMap((line) => /\bid=(\d+) /.exec(line)?.[1] ?? []);
  const others = [String(await admin.client('ID')), String(ofApp)];
  return ids.filter((id) => !others.includes(id));
}

const locksIn = (admin: Redis): Promise<string[]> => admin.keys('lock:*');

describe('an application with a client that it passed to the module', () => {
  it.each(Object.entries(ACTS))('reaches neither locks nor their connections when it %s', async (_what, act) => {
    const { admin, url } = await ownRedis();
    const app = appClient(url);
    const { locks } = await startApp({ connection: app.client });
    const key = freshKey();
    const held = await locks.acquire(key, { leaseMs: 900 });
    await eventually(async () => ((await admin.pubsub('CHANNELS', '*')) as string[]).length > 0);
    const before = await connectionsOf(admin, await app.send('CLIENT', 'ID'));
    await act(app);
    // For longer than the lease.
    await untilRenewed({ locks }, 4, { timeoutMs: 20_000 });
    expect(held.held).toBe(true);
    const waiting = locks.acquire(key, { waitMs: 30_000 });
    await untilWaiting({ locks }, key);
    expect(await locksIn(admin)).toEqual([`lock:${key}`]);
    await held.release();
    const next = await waiting;
    expect(next.fencingToken).toBeGreaterThan(held.fencingToken);
    const after = String(await admin.call('CLIENT', 'LIST'));
    for (const id of before) expect(after).toContain(`id=${id} `);
  });

  it('keeps it as it was when the module is closed', async () => {
    const { admin, url } = await ownRedis();
    const app = appClient(url);
    await app.send('PING');
    const listeners = () => app.client.eventNames().map((name) => [name, app.client.listenerCount(name)]);
    const [before, id] = [listeners(), await app.send('CLIENT', 'ID')];
    const started = await startApp({ connection: app.client });
    await started.locks.withLock(freshKey(), () => undefined);
    await started.close();
    expect(listeners()).toEqual(before);
    expect(await app.send('CLIENT', 'ID')).toEqual(id);
    await eventually(async () => (await connectionsOf(admin, id)).length === 0);
  });

  it('has its locks in the database of its options, whichever it has selected', async () => {
    const { url } = await ownRedis();
    const app = appClient(`${url}/2`);
    await app.select(3);
    const { locks } = await startApp({ connection: app.client });
    await locks.withLock('key', () => undefined);
    const names = await Promise.all([0, 2, 3].map((db) => locksIn(openAdmin(`${url}/${db}`))));
    expect(names).toEqual([[], ['lock:key'], []]);
  });

  it.each<[string, Act]>([
    ['subscribes', ACTS['subscribes by it']!],
    ['has ended', (app) => app.disconnect()],
  ])('may pass one that %s', async (_what, act) => {
    const { url } = await ownRedis();
    const app = appClient(url);
    await app.send('PING');
    await act(app);
    const { locks } = await startApp({ connection: app.client });
    expect(await locks.withLock(freshKey(), () => 'done')).toBe('done');
  });

  it('may pass one that is not connected, which stays so', async () => {
    const { admin, url } = await ownRedis();
    const app = appClient(url, { isLazy: true });
    const { locks } = await startApp({ connection: app.client });
    await locks.withLock(freshKey(), () => undefined);
    expect(app.isConnected).toBe(false);
    expect(await locksIn(admin)).toHaveLength(1);
  });

  it('gets locks by one that may take weeks to connect', async () => {
    const { url } = await ownRedis();
    // The longest time limit that Node supports.
    const connectTimeout = 2 ** 31 - 1;
    const connection =
      LIBRARY === 'node-redis'
        ? givenNodeRedis(url, { socket: { connectTimeout } })
        : givenIoredis(url, { connectTimeout });
    const { locks } = await startApp({ connection });
    expect((await locks.acquire(freshKey(), { waitMs: 30_000 })).held).toBe(true);
  });

  it('reads in the log that its key prefix is not that of the locks', async () => {
    const { admin, url } = await ownRedis();
    const app = appClient(url);
    Object.assign(optionsOf(app.client), { keyPrefix: 'shop:' });
    const { lines } = spyOnLogs();
    const { locks } = await startApp({ connection: app.client });
    await locks.withLock('key', () => undefined);
    expect(await locksIn(admin)).toEqual(['lock:key']);
    expect(String(lines())).toContain('The key prefix "shop:" of the given Redis client does not apply to locks');
  });
});

describe('a client of several servers that an application passed to the module', () => {
  const end = (client: RedisConnection): void => {
    const one = client as { disconnect?(): void; destroy?(): void; readonly isOpen?: boolean };
    if (one.disconnect) one.disconnect();
    else if (one.isOpen) one.destroy!();
  };

  it.each<[string, () => Promise<RedisConnection>]>([
    ['a cluster', async () => givenCluster((await ownCluster()).connection.cluster)],
    ['Sentinel', async () => givenBySentinels((await ownSentinels()).connection)],
  ])('may end while a lock is held: %s', async (_what, open) => {
    const client = await open();
    const { locks } = await startApp({ connection: client });
    const held = await locks.acquire(freshKey(), { leaseMs: 900 });
    end(client);
    await untilRenewed({ locks }, 4, { timeoutMs: 20_000 });
    expect(held.held).toBe(true);
    await held.release();
    expect(await locks.withLock(freshKey(), () => 'done')).toBe('done');
  });
});

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

const atPort = (url: string, options: object) => ({ port: Number(new URL(url).port), ...options });
const isRefused = (name: string): boolean => LIBRARY === 'node-redis' && REFUSED_BY_NODE_REDIS.includes(name);

const CLIENTS: readonly { readonly name: string; readonly open: (url: string) => RedisConnection }[] = [
  ...Object.entries(LIBRARY === 'node-redis' ? OF_NODE_REDIS : OPTIONS).map(([name, options]) => ({
    name: `a given client ${name}`,
    open: (url: string) => (LIBRARY === 'node-redis' ? givenNodeRedis(url, options) : givenIoredis(url, options)),
  })),
  ...Object.entries(OPTIONS)
    .filter(([name]) => !isRefused(name))
    .map(([name, options]) => ({ name: `a connection ${name}`, open: (url: string) => atPort(url, options) })),
];

describe('locks with options of the client', () => {
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
    const connection = atPort('redis://127.0.0.1:6379', OPTIONS[name]!);
    await expect(startApp({ connection })).rejects.toThrow('node-redis has no counterpart for the option');
  });
});
