import { RESP_TYPES, createClient, createClientPool } from 'redis';
import { systemClock } from '../../../lib/core/clock.js';
import { systemRandomness } from '../../../lib/core/randomness.js';
import { nodeRedisLibrary } from '../../../lib/redis/client/node-redis/node-redis-library.js';
import { type SingleClient } from '../../../lib/redis/client/redis-client.js';
import { isUnsent } from '../../../lib/redis/connection/redis-errors.js';
import { closeAll, closeLater, freshKey, openAdmin, startApp } from '../../support/apps/lock-app.js';
import { FakeReporter } from '../../support/core/fake-store.js';
import { proxyTo } from '../../support/redis/own-redis.js';
import { redisUrl } from '../../support/topologies/topology.js';
import { eventually } from '../../support/waiting/eventually.js';
import { rejection } from '../../support/waiting/rejection.js';

const COUNT = "redis.call('PEXPIRE', KEYS[1], 60000); return redis.call('INCR', KEYS[1])";

type App = ReturnType<typeof createClient>;

function newApp(options: object = {}): App {
  const app = createClient({ url: redisUrl(), ...options }) as App;
  app.on('error', () => undefined);
  closeLater({ close: async () => app.isOpen && app.destroy() });
  return app;
}

const connectedApp = async (options?: object): Promise<App> => newApp(options).connect();

const portOf = (app: object): SingleClient => {
  const parts = { clock: systemClock, random: systemRandomness, reporter: new FakeReporter() };
  return nodeRedisLibrary.clientsOf(parts).of(app) as SingleClient;
};

/** How many listeners there are for each event. */
const listenersOf = (app: App): object =>
  Object.fromEntries(app.eventNames().map((event) => [String(event), app.listenerCount(event)]));

describe('a client of node-redis that the application gave', () => {
  afterEach(closeAll);

  it.each([
    ['Buffers', { commandOptions: { typeMapping: { [RESP_TYPES.BLOB_STRING]: Buffer, [RESP_TYPES.NUMBER]: String } } }],
    ['RESP2', { RESP: 2 }],
    ['RESP3', { RESP: 3 }],
    ['no queue', { disableOfflineQueue: true }],
    ['urgent commands', { commandOptions: { asap: true } }],
  ])('answers with texts and numbers, whatever it is set to: %s', async (_name, options) => {
    const client = portOf(await connectedApp(options));
    expect(await client.evaluate("return {1, 'a', {'b'}}", [0])).toEqual([1, 'a', ['b']]);
    expect(await client.info('server')).toContain('run_id:');
    const key = freshKey();
    const order = Array.from({ length: 20 }, () => client.evaluate(COUNT, [1, key]));
    expect(await Promise.all(order)).toEqual(order.map((_, i) => i + 1));
  });

  it('answers with texts by a view of it that maps types', async () => {
    const view = (await connectedApp()).withTypeMapping({ [RESP_TYPES.BLOB_STRING]: Buffer });
    expect(await portOf(view).evaluate("return 'a'", [0])).toBe('a');
  });

  it('holds locks, gets none of our listeners for good, and stays open', async () => {
    const app = await connectedApp({ commandOptions: { typeMapping: { [RESP_TYPES.BLOB_STRING]: Buffer } } });
    const before = listenersOf(app);
    const [a, b] = [await startApp({ connection: app }), await startApp()];
    const key = freshKey();
    const lock = await a.locks.acquire(key);
    const waiting = b.locks.acquire(key, { waitMs: 20_000 });
    await lock.release();
    await (await waiting).release();
    await a.close();
    expect(listenersOf(app)).toEqual(before);
    expect(await app.ping()).toBe('PONG');
  });

  it('is not lost by an error that leaves it connected', async () => {
    const app = await connectedApp();
    const client = portOf(app);
    const heard: string[] = [];
    for (const event of ['error', 'closed', 'ended'] as const) client.on(event, () => heard.push(event));
    app.emit('error', new Error('a ping failed'));
    expect(heard).toEqual(['error']);
    expect(client.status).toBe('ready');
  });

  it('takes back what the socket has not taken when the connection is lost', async () => {
    const [proxy, key] = [await proxyTo(), freshKey()];
    const app = await connectedApp({ url: proxy.url });
    const client = portOf(app);
    client.on('closed', () => undefined);
    proxy.blackhole(true);
    // More than the buffers of the sockets take: the rest waits in the queue of the client.
    const padding = 'x'.repeat(1_000_000);
    const errors = Array.from({ length: 40 }, () => rejection(client.evaluate(COUNT, [1, key, padding])));
    await eventually(() => client.isWritable);
    proxy.cutAll();
    const unsent = (await Promise.all(errors)).filter(isUnsent).length;
    expect(unsent).toBeGreaterThan(0);
    proxy.blackhole(false);
    await eventually(() => client.isWritable);
    expect(await client.evaluate('return 1', [0])).toBe(1);
    expect(await openAdmin().get(key)).toBeNull();
  });

  it('is left for a connection of our own when it is not connected', async () => {
    const app = newApp();
    const { locks } = await startApp({ connection: app });
    const lock = await locks.acquire(freshKey());
    await lock.release();
    expect(app.isOpen).toBe(false);
    // The application connects it later, as if nobody else had it.
    await app.connect();
    expect(await app.ping()).toBe('PONG');
  });

  it('tells which database it has selected when a connection begins', async () => {
    const proxy = await proxyTo();
    const app = await connectedApp({ url: proxy.url });
    await app.select(4);
    const client = portOf(app);
    let told = 0;
    client.on('database', () => (told += 1));
    await eventually(() => client.database === 4);
    await app.select(5);
    proxy.cutAll();
    await eventually(() => client.database === 5);
    expect(told).toBe(2);
    const [copy, key] = [closeLater(client.duplicate()), freshKey()];
    await eventually(() => copy.isWritable);
    await copy.evaluate(COUNT, [1, key]);
    expect(await openAdmin({ port: Number(new URL(redisUrl()).port), db: 5 }).get(key)).toBe('1');
  });

  it('that subscribes by RESP2 refuses commands as such', async () => {
    const app = await connectedApp({ RESP: 2 });
    await app.subscribe(freshKey(), () => undefined);
    const error = await rejection(portOf(app).evaluate('return 1', [0]));
    expect(error.message).toContain('subscriber mode');
    expect(() => nodeRedisLibrary.checkClient(app, '`connection`')).toThrow('subscriber mode');
  });

  it('is refused when it is a pool', () => {
    const pool = createClientPool({ url: redisUrl() });
    expect(nodeRedisLibrary.isClient(pool)).toBe(true);
    expect(() => nodeRedisLibrary.checkClient(pool, '`connection`')).toThrow('got a pool');
  });
});
