import { systemClock } from '../../../lib/core/clock.js';
import { systemRandomness } from '../../../lib/core/randomness.js';
import { nodeRedisLibrary } from '../../../lib/redis/client/node-redis.js';
import { loadNodeRedis } from '../../../lib/redis/client/optional-peers.cjs';
import { type SingleClient } from '../../../lib/redis/client/redis-client.js';
import { closeAll, closeLater } from '../../support/apps/lock-app.js';
import { FakeReporter } from '../../support/core/fake-store.js';
import { disconnect, proxyTo } from '../../support/redis/own-redis.js';
import { redisUrl } from '../../support/topologies/topology.js';
import { eventually } from '../../support/waiting/eventually.js';

/** A connection of a separate store, as each master of a quorum has one. */
const open = (url: string): SingleClient => {
  const parts = { clock: systemClock, random: systemRandomness, reporter: new FakeReporter() };
  return closeLater(nodeRedisLibrary.open(url, parts)) as SingleClient;
};

describe('our own connections by node-redis', () => {
  afterEach(closeAll);

  it('have one class of clients, for any server and any number of connections', async () => {
    // It builds a class whenever its options change, which blocks the process for long.
    const createClient = jest.spyOn(loadNodeRedis()!, 'createClient');
    const proxy = await proxyTo();
    const clients = [open(redisUrl()), open(`${redisUrl()}/3`), open(proxy.url)];
    for (const client of clients) client.connect().catch(() => undefined);
    await eventually(() => clients.every(({ isWritable }) => isWritable));
    let tries = 0;
    clients[2]!.on('connecting', () => (tries += 1));
    disconnect(proxy);
    await eventually(() => tries >= 3);
    proxy.refuse(false);
    await eventually(() => clients[2]!.isWritable);
    expect(createClient.mock.calls.length).toBeLessThanOrEqual(1);
    createClient.mockRestore();
  });
});
