import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { type Clock, systemClock } from '../../../../lib/core/clock.js';
import { systemRandomness } from '../../../../lib/core/randomness.js';
import { ioredisLibrary, iovalkeyLibrary } from '../../../../lib/redis/client/ioredis.js';
import { type SingleClient } from '../../../../lib/redis/client/redis-client.js';
import { GREETING_MS, SLOTS_REFRESH_MS } from '../../../../lib/redis/timing.js';
import { FakeReporter } from '../../../support/core/fake-store.js';
import { eventually } from '../../../support/waiting/eventually.js';

const parts = { clock: systemClock, random: systemRandomness, reporter: new FakeReporter() };
const COMMAND = /\*\d+\r\n\$\d+\r\n(\w+)\r\n(?:\$\d+\r\n[^\r]*\r\n)*/g;

const bulk = (text: string): string => `$${text.length}\r\n${text}\r\n`;

/** A server that answers each command by its name; what it does not know, with OK. */
async function serve(answers: Readonly<Record<string, () => string>>) {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket
      .on('error', () => undefined)
      .on('data', (data) => {
        for (const [, name] of String(data).matchAll(COMMAND))
          socket.write(answers[name!.toLowerCase()]?.() ?? '+OK\r\n');
      });
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const close = async (): Promise<void> => {
    for (const socket of sockets) socket.destroy();
    await once(server.close(), 'close');
  };
  return { port: (server.address() as AddressInfo).port, close };
}

describe.each([ioredisLibrary, iovalkeyLibrary])('a connection by $name', (library) => {
  it('gets the numbers of WAIT and CLUSTER SLOTS, although the application wants numbers as texts', async () => {
    let port = 0;
    const slots = (): string => `*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n${bulk('127.0.0.1')}:${port}\r\n`;
    const server = await serve({ info: () => bulk('loading:0'), wait: () => ':2\r\n', cluster: slots });
    port = server.port;
    const single = library.open({ port, stringNumbers: true }, parts) as SingleClient;
    await single.connect();
    expect(await single.wait(2, 10)).toBe(2);
    await single.close();
    const redisOptions = { stringNumbers: true };
    const cluster = library.open({ cluster: [{ host: '127.0.0.1', port }], redisOptions }, parts);
    await cluster.connect();
    expect(cluster.status).toBe('ready');
    await cluster.close();
    await server.close();
  });

  it.each([0, -1, Infinity])(
    'asks a cluster for its slots after the usual pause where that of the application is %d',
    async (slotsRefreshInterval) => {
      let port = 0;
      const slots = (): string => `*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n${bulk('127.0.0.1')}:${port}\r\n`;
      const server = await serve({ info: () => bulk('loading:0'), cluster: slots });
      port = server.port;
      const pauses: number[] = [];
      const setTimer: Clock['setTimer'] = (callback, ms) => {
        pauses.push(ms);
        return systemClock.setTimer(callback, ms);
      };
      const connection = { cluster: [{ host: '127.0.0.1', port }], slotsRefreshInterval };
      const cluster = library.open(connection, { ...parts, clock: { ...systemClock, setTimer } });
      await cluster.connect();
      expect(pauses).toContain(SLOTS_REFRESH_MS);
      expect(pauses).not.toContain(slotsRefreshInterval);
      await cluster.close();
      await server.close();
    },
  );

  it('needs no permission to SELECT for a database 0 that is given as text', async () => {
    const select = (): string => "-NOPERM this user has no permissions to run the 'select' command\r\n";
    const server = await serve({ info: () => bulk('loading:0'), select });
    const client = library.open({ port: server.port, db: '0' as never }, parts);
    await client.connect();
    expect(client.status).toBe('ready');
    await client.close();
    await server.close();
  });

  it('asks a server soon again that loads its data, however long that may take by its own estimate', async () => {
    let asked = 0;
    const info = (): string => bulk((asked += 1) < 3 ? 'loading:1\r\nloading_eta_seconds:60' : 'loading:0');
    const server = await serve({ info });
    const client = library.open({ port: server.port }, parts);
    const begun = performance.now();
    await client.connect();
    expect(performance.now() - begun).toBeLessThan(GREETING_MS);
    expect(asked).toBe(3);
    await client.close();
    await server.close();
  });

  it.each(['connect', 'disconnect'] as const)(
    'reports a Connector whose %s() throws, and tries again',
    async (method) => {
      const fail = (): never => {
        throw new Error('no tunnel');
      };
      class Connector {
        connect = method === 'connect' ? fail : async () => Promise.reject(new Error('no tunnel'));
        disconnect = method === 'disconnect' ? fail : (): void => undefined;
      }
      const client = library.open({ host: '127.0.0.1', Connector }, parts);
      const errors: string[] = [];
      client.on('error', ({ message }) => errors.push(message));
      client.connect().catch(() => undefined);
      await eventually(() => errors.length >= 3);
      expect(new Set(errors)).toEqual(new Set(['no tunnel']));
      await client.close();
    },
  );

  it.each([
    ['throws', () => { throw new Error('no resolver'); }, 'no resolver'], // prettier-ignore
    [
      'finds no address',
      (_host: string, done: (error: null, address?: string) => void) => done(null),
      'no address is known',
    ],
  ])('reports a dnsLookup that %s, and tries again', async (_how, dnsLookup, text) => {
    const client = library.open({ cluster: [{ host: 'redis.invalid', port: 1 }], dnsLookup }, parts);
    const errors: string[] = [];
    client.on('error', ({ message }) => errors.push(message));
    client.connect().catch(() => undefined);
    await eventually(() => errors.length >= 3);
    expect(new Set(errors)).toEqual(new Set([text]));
    await client.close();
  });

  it.each([2, 3] as const)(
    'reports a refused password, and not the refused SELECT after it, in RESP%i',
    async (protocol) => {
      const refused = (): string => '-WRONGPASS invalid username-password pair\r\n';
      const noAuth = (): string => '-NOAUTH Authentication required.\r\n';
      const server = await serve({ auth: refused, hello: refused, select: noAuth, info: noAuth });
      const client = library.open({ port: server.port, password: 'geheim', db: 3, protocol }, parts);
      const errors: string[] = [];
      client.on('error', ({ message }) => errors.push(message));
      client.connect().catch(() => undefined);
      await eventually(() => errors.length >= 2);
      for (const error of errors) expect(error).toContain('WRONGPASS');
      await client.close();
      await server.close();
    },
  );
});
