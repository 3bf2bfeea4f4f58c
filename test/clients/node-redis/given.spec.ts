import { RESP_TYPES, createClient } from 'redis';
import { systemClock } from '../../../lib/core/clock.js';
import { systemRandomness } from '../../../lib/core/randomness.js';
import { nodeRedisLibrary } from '../../../lib/redis/client/node-redis.js';
import { type SingleClient } from '../../../lib/redis/client/redis-client.js';
import { isUnsent } from '../../../lib/redis/connection/redis-errors.js';
import { closeAll, closeLater, freshKey, openAdmin } from '../../support/apps/lock-app.js';
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

/** A duplicate of it. */
async function copyOf(app: object): Promise<SingleClient> {
  const parts = { clock: systemClock, random: systemRandomness, reporter: new FakeReporter() };
  const client = closeLater(nodeRedisLibrary.copyOf(app, parts)) as SingleClient;
  await client.connect();
  return client;
}

describe('a duplicate of a client of node-redis', () => {
  afterEach(closeAll);

  it.each([
    ['Buffers', { commandOptions: { typeMapping: { [RESP_TYPES.BLOB_STRING]: Buffer, [RESP_TYPES.NUMBER]: String } } }],
    ['RESP2', { RESP: 2 }],
    ['RESP3', { RESP: 3 }],
    ['no queue', { disableOfflineQueue: true }],
    ['urgent commands', { commandOptions: { asap: true } }],
  ])('answers with texts and numbers, with any setting: %s', async (_name, options) => {
    const client = await copyOf(newApp(options));
    expect(await client.evaluate("return {1, 'a', {'b'}}", [0])).toEqual([1, 'a', ['b']]);
    expect(await client.info('server')).toContain('run_id:');
    const key = freshKey();
    const order = Array.from({ length: 20 }, () => client.evaluate(COUNT, [1, key]));
    expect(await Promise.all(order)).toEqual(order.map((_, i) => i + 1));
  });

  it('answers with texts by a view of it that maps types', async () => {
    const view = newApp().withTypeMapping({ [RESP_TYPES.BLOB_STRING]: Buffer });
    expect(await (await copyOf(view)).evaluate("return 'a'", [0])).toBe('a');
  });

  it('withdraws what the socket has not taken when the connection is lost', async () => {
    const [proxy, key] = [await proxyTo(), freshKey()];
    const client = await copyOf(newApp({ url: proxy.url }));
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
});
