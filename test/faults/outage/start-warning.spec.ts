import { type AddressInfo, type Server, type Socket, createServer } from 'node:net';
import { type RedisConnection } from '../../../lib/index.js';
import { freePorts } from '../../../scripts/redis.mjs';
import { LIBRARY } from '../../support/clients/library.js';
import { givenClient, givenCluster } from '../../support/redis/connections.js';
import { eventually } from '../../support/waiting/eventually.js';
import { ownRedis, proxyTo, startAgain } from '../../support/redis/own-redis.js';
import { closeAll, closeLater, freshKey, startApp } from '../../support/apps/lock-app.js';
import { PASSWORD, SECRET, spyOnLogs } from '../security/support.js';
import { rejection } from '../../support/waiting/rejection.js';
import { ownSecured } from '../../support/redis/own-topologies.js';

const ENCODED = encodeURIComponent(PASSWORD);

/** Warnings of a Redis that is not there, of the start. */
const START = /Redis is not available yet/;

const DOWN: Record<string, (port: number) => RedisConnection> = {
  'a URL': (port) => `redis://locks:${ENCODED}@127.0.0.1:${port}`,
  options: (port) => ({ host: '127.0.0.1', port, password: PASSWORD }),
  'a given client': (port) => givenClient(`redis://locks:${ENCODED}@127.0.0.1:${port}`),
  'a cluster': (port) => ({ cluster: [{ host: '127.0.0.1', port }], redisOptions: { password: PASSWORD } }),
  'a cluster of URLs': (port) => ({ cluster: [`redis://127.0.0.1:${port}`], redisOptions: { password: PASSWORD } }),
  'a given cluster': (port) => givenCluster([{ host: '127.0.0.1', port }], { clusterRetryStrategy: () => 50 }),
};

/** What is logged from now on; `told` are the warnings of the start. */
function spyOnStart() {
  const { lines } = spyOnLogs();
  return { lines, told: () => lines().filter((line) => START.test(line)) };
}

/** Takes connections and does this with them; gives how many there were. */
async function listen(onConnection: (socket: Socket) => void) {
  let connections = 0;
  const sockets = new Set<Socket>();
  const server: Server = createServer((socket) => {
    connections += 1;
    sockets.add(socket);
    socket.on('error', () => undefined);
    onConnection(socket);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const close = async (): Promise<void> => {
    server.close();
    for (const socket of sockets) socket.destroy();
  };
  closeLater({ close });
  return { port: (server.address() as AddressInfo).port, connections: () => connections };
}

describe('a Redis that is down when the app starts', () => {
  afterEach(closeAll);
  afterEach(() => jest.restoreAllMocks());

  it.each(Object.entries(DOWN))('causes one warning at once, with address and reason: %s', async (_form, open) => {
    const { lines, told } = spyOnStart();
    const [port] = await freePorts(1);
    const { locks } = await startApp({ connection: open(port!) });
    await eventually(() => told().length > 0);
    expect(told()[0]).toContain(`127.0.0.1:${port}`);
    expect(told()[0]).toMatch(/connect ECONNREFUSED/);
    // Long enough for several tries.
    for (let i = 0; i < 2; i += 1) await locks.acquire(freshKey(), { waitMs: 500 }).catch(() => undefined);
    expect(told()).toHaveLength(1);
    expect(lines().filter((line) => SECRET.test(line))).toEqual([]);
    expect(lines().filter((line) => /maxRetriesPerRequest|from scratch/.test(line))).toEqual([]);
  });

  it('causes a warning behind Sentinel, with a sentinel and the name of the master', async () => {
    const { lines, told } = spyOnStart();
    const [port] = await freePorts(1);
    const sentinels = [{ host: '127.0.0.1', port: port! }];
    const { locks } = await startApp({ connection: { sentinels, name: 'mymaster', sentinelPassword: PASSWORD } });
    await eventually(() => told().length > 0);
    expect(told()[0]).toMatch(
      new RegExp(`sentinel mymaster of 127.0.0.1:${port}.*sentinels are unreachable.*\`name\``),
    );
    const error = await locks.acquire(freshKey(), { waitMs: 1_500 }).catch(({ message }: Error) => message);
    expect(error).toMatch(/sentinels are unreachable.*`name`/);
    expect(told()).toHaveLength(1);
    expect(lines().filter((line) => SECRET.test(line) || /from scratch/.test(line))).toEqual([]);
  });

  it('causes a warning when the password is refused', async () => {
    const { told } = spyOnStart();
    const { port } = await ownRedis(['--requirepass', 'another']);
    await startApp({ connection: `redis://:${ENCODED}@127.0.0.1:${port}` });
    await eventually(() => told().length > 0);
    expect(told()[0]).toMatch(/WRONGPASS.*Check user and password/);
    expect(told().filter((line) => SECRET.test(line))).toEqual([]);
  });

  it('causes a warning when something else answers', async () => {
    const { told } = spyOnStart();
    const { port, connections } = await listen((socket) => socket.end('HTTP/1.1 400 Bad Request\r\n\r\n'));
    await startApp({ connection: `redis://127.0.0.1:${port}` });
    // Two connections a try.
    await eventually(() => connections() > 5);
    expect(told()).toHaveLength(1);
    expect(told()[0]).toMatch(/is not Redis, or it expects TLS/);
  });

  const DENIED =
    '-DENIED Redis is running in protected mode because protected mode is enabled and no password is set for the default user. ' +
    'In this mode connections are only accepted from the loopback interface. If you want to connect from external computers to ' +
    `Redis you may adopt one of the following solutions: 1) ${'Just disable protected mode. '.repeat(20)}\r\n`;

  it.each<[string, RegExp]>([
    [DENIED, /DENIED Redis is running in protected mode .* loopback interface\. This Redis is in protected mode/],
    ['-ERR max number of clients reached\r\n', /max number of clients reached\. Raise `maxclients`/],
  ])('causes a warning that quotes the server: %.25s', async (greeting, said) => {
    // node-redis ignores it in place of an answer to CLIENT SETINFO, and hides its socket.
    const expected = LIBRARY === 'node-redis' ? /\(protected mode\) and more of them \(`maxclients`\)/ : said;
    const { told } = spyOnStart();
    const { port } = await listen((socket) => {
      socket.write(greeting);
      socket.once('data', () => socket.end());
    });
    const { locks } = await startApp({ connection: `redis://127.0.0.1:${port}` });
    await eventually(() => told().length > 0);
    expect(told()[0]).toMatch(expected);
    const { message } = await rejection(locks.acquire(freshKey(), { waitMs: 1_000 }));
    expect(message).toMatch(expected);
    expect(message).not.toContain('external computers');
  });

  const TLS = /whether it expects TLS|expects TLS \(`rediss/;
  it.each([
    ['speaks no TLS, and is asked to', async () => `rediss://127.0.0.1:${(await ownRedis()).port}`],
    ['takes the connection and says nothing', async () => `redis://127.0.0.1:${(await listen(() => undefined)).port}`],
    [
      'speaks TLS, and is not asked to',
      async () => {
        const secured = await ownSecured();
        return `redis://127.0.0.1:${secured.connection.port}`;
      },
    ],
  ])(
    'causes a warning when it %s',
    async (_what, start) => {
      const { told } = spyOnStart();
      const { locks } = await startApp({ connection: await start() });
      await eventually(() => told().length > 0, { timeoutMs: 20_000 });
      expect(told()[0]).toMatch(TLS);
      expect(await rejection(locks.acquire(freshKey(), { waitMs: 8_000 }))).toMatchObject({
        message: expect.stringMatching(TLS),
      });
      expect(told()).toHaveLength(1);
    },
    60_000,
  );

  it('is used as soon as it is up, and a later outage causes no warning', async () => {
    const { lines, told } = spyOnStart();
    const server = await ownRedis();
    await server.kill();
    const { locks } = await startApp({ connection: server.url });
    await eventually(() => told().length === 1);
    await startAgain(server);
    await locks.withLock(freshKey(), { waitMs: 20_000 }, () => undefined);
    expect(told()).toHaveLength(1);
    expect(lines().filter((line) => line.includes('is available now'))).toEqual([
      expect.stringContaining(`Redis is available now (127.0.0.1:${server.port}).`),
    ]);
  });
});

describe('a Redis that is up when the app starts', () => {
  afterEach(closeAll);
  afterEach(() => jest.restoreAllMocks());

  it('causes no warning, even when it goes away later', async () => {
    const { told } = spyOnStart();
    const proxy = await proxyTo();
    const { locks } = await startApp({ connection: proxy.url });
    await locks.withLock(freshKey(), () => undefined);
    proxy.refuse(true);
    proxy.cutAll();
    await locks.acquire(freshKey(), { waitMs: 300 }).catch(() => undefined);
    expect(told()).toEqual([]);
  });
});
