import { type Socket, createServer } from 'node:net';
import { isLost } from '../../../lib/redis/connection/redis-errors.js';
import { type SingleClient } from '../../../lib/redis/client/redis-client.js';
import { closeAll, closeLater, freshKey, openAdmin } from '../../support/apps/lock-app.js';
import { disconnect, ownRedis, proxyTo } from '../../support/redis/own-redis.js';
import { redisUrl } from '../../support/topologies/topology.js';
import { eventually } from '../../support/waiting/eventually.js';
import { outcomeOf } from '../../support/waiting/outcome.js';
import { rejection } from '../../support/waiting/rejection.js';
import { type Subject, SubjectClients, recordOf, untilReady } from './subject.js';

const COUNT = "redis.call('PEXPIRE', KEYS[1], 60000); return redis.call('INCR', KEYS[1])";

/** A server that accepts connections, and never answers. */
async function startSilentServer(): Promise<{ readonly url: string; readonly sockets: Socket[] }> {
  const sockets: Socket[] = [];
  const server = createServer((socket) => sockets.push(socket.on('error', () => undefined).resume()));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const close = async (): Promise<void> => {
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
  };
  closeLater({ close });
  const address = server.address() as { readonly port: number };
  return { url: `redis://127.0.0.1:${address.port}`, sockets };
}

/** What a connection does when the network or the server fails. */
export function faultConformance(subject: Subject): void {
  const connected = (url: string): Promise<SingleClient> => new SubjectClients(subject).connected(url);

  describe('a connection that fails', () => {
    let consoleError: jest.SpiedFunction<typeof console.error>;

    beforeEach(() => {
      consoleError = jest.spyOn(console, 'error').mockImplementation(() => undefined);
    });

    afterEach(async () => {
      await closeAll();
      // A library without a listener for its errors writes them there, or ends the process.
      expect(consoleError).not.toHaveBeenCalled();
      consoleError.mockRestore();
    });

    it('rejects the first connect, and keeps trying', async () => {
      const proxy = await proxyTo();
      proxy.refuse(true);
      const client = new SubjectClients(subject).open(proxy.url);
      const errors: Error[] = [];
      client.on('error', (error) => errors.push(error));
      await rejection(client.connect());
      await eventually(() => errors.length > 1);
      expect(errors[0]!.message).toMatch(/\w/);
      expect(client.isWritable).toBe(false);
      expect(client.status).not.toBe('ended');
      proxy.refuse(false);
      await untilReady(client);
    });

    it('is opened again', async () => {
      const proxy = await proxyTo();
      const client = await connected(proxy.url);
      const record = recordOf(client);
      disconnect(proxy);
      await eventually(() => record[0] === 'closed');
      await eventually(() => client.status === 'closed' && client.peer === null);
      expect(client.isWritable).toBe(false);
      proxy.refuse(false);
      await untilReady(client);
      expect(record.at(-1)).toBe('ready');
      expect(record).not.toContain('ended');
      expect(await client.evaluate('return 1', [0])).toBe(1);
    });

    it('never sends later the commands of the meantime', async () => {
      const [proxy, admin, key] = [await proxyTo(), openAdmin(), freshKey()];
      const client = await connected(proxy.url);
      disconnect(proxy);
      await eventually(() => client.status === 'closed');
      const error = await rejection(client.evaluate(COUNT, [1, key]));
      expect(isLost(error)).toBe(true);
      proxy.refuse(false);
      await untilReady(client);
      expect(await client.evaluate('return 1', [0])).toBe(1);
      expect(await admin.get(key)).toBeNull();
    });

    it('never sends a command twice', async () => {
      const [proxy, admin, key] = [await proxyTo(), openAdmin(), freshKey()];
      const client = await connected(proxy.url);
      proxy.dropNextReply((text) => text.includes(key));
      const error = await rejection(client.evaluate(COUNT, [1, key]));
      expect(isLost(error)).toBe(true);
      await untilReady(client);
      expect(await client.evaluate('return 1', [0])).toBe(1);
      expect(await admin.get(key)).toBe('1');
    });

    it('rejects all commands under way', async () => {
      const proxy = await proxyTo();
      const client = await connected(proxy.url);
      proxy.blackhole(true);
      const commands = [client.evaluate('return 1', [0]), client.info('server'), client.time()].map((one) =>
        rejection(one),
      );
      proxy.cutAll();
      for (const error of await Promise.all(commands)) expect(isLost(error)).toBe(true);
    });

    it('is cut and opened again by `reconnect`', async () => {
      const { url, admin } = await ownRedis();
      const client = await connected(url);
      const id = await client.evaluate("return redis.call('INCR', KEYS[1])", [1, 'k']);
      const record = recordOf(client);
      const before = String(await admin.call('CLIENT', 'LIST'));
      client.reconnect();
      await eventually(() => record.includes('ready'));
      await untilReady(client);
      expect(record[0]).toBe('closed');
      expect(record).not.toContain('ended');
      expect(String(await admin.call('CLIENT', 'LIST'))).not.toBe(before);
      expect(await client.evaluate("return redis.call('INCR', KEYS[1])", [1, 'k'])).toBe(Number(id) + 1);
    });

    it('is cut by `reconnect` while the server is silent, and rejects what it has not answered', async () => {
      const proxy = await proxyTo();
      const client = await connected(proxy.url);
      proxy.blackhole(true);
      const pending = rejection(client.evaluate('return 1', [0]));
      client.reconnect();
      expect(isLost(await pending)).toBe(true);
      proxy.blackhole(false);
      await untilReady(client);
    });

    it('closes within its limit while the server is silent', async () => {
      const proxy = await proxyTo();
      const client = await connected(proxy.url);
      proxy.blackhole(true);
      const pending = rejection(client.evaluate('return 1', [0]));
      await client.close();
      await eventually(() => client.status === 'ended');
      expect(isLost(await pending)).toBe(true);
    });

    it('stays closed when it is closed in the pause before the next try', async () => {
      const proxy = await proxyTo();
      const client = await connected(proxy.url);
      disconnect(proxy);
      await eventually(() => client.status === 'closed');
      const record = recordOf(client);
      await client.close();
      proxy.refuse(false);
      // Another one that has lost its connection since then is back.
      const other = await connected(proxy.url);
      disconnect(proxy);
      await eventually(() => other.status === 'closed');
      proxy.refuse(false);
      await untilReady(other);
      expect(client.isWritable).toBe(false);
      expect(record).not.toContain('connecting');
    });

    it('stays closed when it is closed while it connects', async () => {
      const { url } = await startSilentServer();
      const client = new SubjectClients(subject).open(url);
      const connecting = outcomeOf(client.connect());
      await eventually(() => client.status !== 'idle');
      await client.close();
      await eventually(() => client.status === 'ended' && connecting.error !== undefined);
    });

    it('is replaced while the server accepts it and stays silent', async () => {
      const { url, sockets } = await startSilentServer();
      const client = new SubjectClients(subject).open(url);
      client.connect().catch(() => undefined);
      await eventually(() => sockets.length >= 3 && sockets[0]!.closed && sockets[1]!.closed, { timeoutMs: 20_000 });
      expect(client.isWritable).toBe(false);
      await client.close();
      await eventually(() => sockets.every(({ closed }) => closed));
    }, 30_000);

    it('is replaced, until the server answers', async () => {
      const proxy = await proxyTo();
      const client = await connected(proxy.url);
      proxy.blackhole(true);
      client.reconnect();
      const closed = new Promise<void>((resolve) => client.once('connected', () => client.once('closed', resolve)));
      await closed;
      proxy.blackhole(false);
      await untilReady(client);
    }, 30_000);

    it('is subscribed to nothing when it is opened again', async () => {
      const [proxy, admin, channel] = [await proxyTo(), openAdmin(), freshKey('channel')];
      const client = await connected(proxy.url);
      const subscriber = client.openSubscriber();
      await untilReady(subscriber);
      await subscriber.subscribe(channel);
      const messages: string[] = [];
      subscriber.on('message', (_channel, text) => messages.push(text));
      const subscribers = async () => ((await admin.call('PUBSUB', 'NUMSUB', channel)) as [string, number])[1];
      expect(await subscribers()).toBe(1);
      const closed = new Promise<void>((resolve) => subscriber.once('closed', resolve));
      proxy.cutAll();
      await closed;
      await untilReady(subscriber);
      // The answer comes after the answers to all commands of the library itself.
      expect(await subscriber.info('server')).toContain('run_id:');
      expect(await subscribers()).toBe(0);
      await subscriber.subscribe(channel);
      await admin.publish(channel, 'after');
      await eventually(() => messages.length > 0);
      expect(messages).toEqual(['after']);
      await subscriber.close();
    });

    it('rejects a subscription that is lost', async () => {
      const proxy = await proxyTo();
      const subscriber = (await connected(proxy.url)).openSubscriber();
      await untilReady(subscriber);
      proxy.blackhole(true);
      const subscribed = rejection(subscriber.subscribe(freshKey('channel')));
      proxy.cutAll();
      expect(isLost(await subscribed)).toBe(true);
      proxy.blackhole(false);
      await subscriber.close();
    });

    it('reports a refused password with the text of the server', async () => {
      const client = new SubjectClients(subject).open(`redis://nobody:geheim@${new URL(redisUrl()).host}`);
      const errors: Error[] = [];
      client.on('error', (error) => errors.push(error));
      client.connect().catch(() => undefined);
      const error = await eventually(() => errors.find(({ message }) => message.includes('WRONGPASS')));
      expect(error.name).toBe('ReplyError');
      expect(client.isWritable).toBe(false);
    });
  });
}
