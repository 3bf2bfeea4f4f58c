import { type Redis } from 'ioredis';
import { type RedisConnection } from '../../lib/index.js';
import { closeAll, freshKey, openAdmin, startApp } from '../support/apps/lock-app.js';
import { itLikeIoredis } from '../support/clients/library.js';
import { type AppClient, appClient, givenBySentinels, givenCluster } from '../support/redis/connections.js';
import { ownRedis } from '../support/redis/own-redis.js';
import { ownCluster, ownSentinels } from '../support/redis/own-topologies.js';
import { eventually } from '../support/waiting/eventually.js';
import { rejection } from '../support/waiting/rejection.js';
import { spyOnLogs } from './security/support.js';
import { untilRenewed, untilWaiting } from '../support/waiting/waiters.js';

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
  afterEach(closeAll);

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

  itLikeIoredis('is refused a client whose duplicate is none, as that of a mock', async () => {
    const { client } = appClient((await ownRedis()).url);
    const error = await rejection(startApp({ connection: Object.assign(client, { duplicate: () => undefined }) }));
    expect(error).toMatchObject({ name: 'LockConfigurationError' });
    expect(error.message).toContain('`duplicate()` returns no client');
  });
});

describe('a client of several servers that an application passed to the module', () => {
  afterEach(closeAll);

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
