import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { systemClock } from '../../../../lib/core/clock.js';
import { systemRandomness } from '../../../../lib/core/randomness.js';
import { ioredisLibrary, iovalkeyLibrary } from '../../../../lib/redis/client/ioredis.js';
import { type SingleClient } from '../../../../lib/redis/client/redis-client.js';
import { GREETING_MS } from '../../../../lib/redis/timing.js';
import { FakeReporter } from '../../../support/core/fake-store.js';

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
    const single = library.clientsOf(parts).open({ port, stringNumbers: true }) as SingleClient;
    await single.connect();
    expect(await single.wait(2, 10)).toBe(2);
    await single.close();
    const redisOptions = { stringNumbers: true };
    const cluster = library.clientsOf(parts).open({ cluster: [{ host: '127.0.0.1', port }], redisOptions });
    await cluster.connect();
    expect(cluster.status).toBe('ready');
    await cluster.close();
    await server.close();
  });

  it('asks a server soon again that loads its data, however long that may take by its own estimate', async () => {
    let asked = 0;
    const info = (): string => bulk((asked += 1) < 3 ? 'loading:1\r\nloading_eta_seconds:60' : 'loading:0');
    const server = await serve({ info });
    const client = library.clientsOf(parts).open({ port: server.port });
    const begun = performance.now();
    await client.connect();
    expect(performance.now() - begun).toBeLessThan(GREETING_MS);
    expect(asked).toBe(3);
    await client.close();
    await server.close();
  });
});
