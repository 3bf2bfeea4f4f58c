import { EventEmitter } from 'node:events';
import { Cluster, Redis } from 'ioredis';
import { Valkey } from 'iovalkey';
import { createClient, createClientPool } from 'redis';
import { LockConfigurationError } from '../../../../lib/core/lock.errors.js';
import { checkConnection } from '../../../../lib/redis/client/check-connection.js';
import { libraryOf } from '../../../../lib/redis/client/client-libraries.js';
import { thrownBy } from '../../../support/waiting/rejection.js';

const method = (): void => undefined;

describe('an object that looks like a client', () => {
  it.each<[string, object, string]>([
    ['without duplicate()', { evalsha: method, eval: method }, '`duplicate()`'],
    ['without evalsha()', { duplicate: method }, '`evalsha()`'],
    ['without events', { evalsha: method, eval: method, duplicate: method }, '`on()`'],
    [
      'that has only events in addition',
      Object.assign(new EventEmitter(), { evalsha: method }),
      '`eval()`, `duplicate()`',
    ],
  ])('is refused %s, and never taken for options', (_what, client, missing) => {
    const check = () => checkConnection(client);
    expect(check).toThrow(LockConfigurationError);
    expect(check).toThrow('Expected `connection` to be a redis:// or rediss:// URL, ioredis options');
    expect(check).toThrow('got an object that looks like a client, but lacks');
    expect(check).toThrow(missing);
    expect(check).toThrow('Pass the client of ioredis itself');
    expect(() => checkConnection([{ port: 1 }, client])).toThrow('Expected `connection[1]` to be');
    expect(libraryOf(client)?.name).toBe('ioredis');
  });

  it('is accepted when it is one of ioredis', () => {
    const clients = [new Redis({ lazyConnect: true }), new Cluster([], { lazyConnect: true })];
    for (const client of clients) expect(() => checkConnection(client)).not.toThrow();
    expect(clients.map((client) => libraryOf(client)?.name)).toEqual(['ioredis', 'ioredis']);
  });

  it.each([
    ['options', { port: 1 }],
    ['a URL', 'redis://a'],
    ['nothing', null],
    ['nothing', undefined],
  ])('is not one that is %s', (_what, value) => expect(libraryOf(value)).toBeUndefined());
});

describe('a client of a library that is not supported', () => {
  const methods = (...names: string[]): object => Object.fromEntries(names.map((name) => [name, method]));
  const OF_IOREDIS = methods('evalsha', 'eval', 'duplicate', 'connect', 'disconnect', 'on', 'once', 'off');
  const OF_REDIS_4 = {
    ...methods('evalSha', 'sendCommand', 'duplicate', 'connect', 'disconnect', 'on', 'off'),
    isOpen: false,
  };

  // Like clients of redis 3.1.2 and 4.7.1, ioredis 4.31.0, ioredis-mock 8.13.1 and @upstash/redis 1.39.0.
  it.each<[string, object, string]>([
    ['redis 3', methods('evalsha', 'duplicate', 'on', 'internal_send_command'), 'Install redis 5 or 6'],
    ['redis 4', OF_REDIS_4, 'Install redis 5 or 6'],
    ['redis 4', { ...OF_REDIS_4, ...methods('evalsha', 'eval', 'once') }, 'Install redis 5 or 6'],
    ['ioredis 4', { ...OF_IOREDIS, options: { dropBufferSupport: false } }, 'Install ioredis 5 or 6'],
    ['ioredis 4', { ...OF_IOREDIS, ...methods('clearAddedScriptHashesCleanInterval') }, 'Install ioredis 5 or 6'],
    ['ioredis-mock', { ...OF_IOREDIS, subscriberMode: false, keyData: {} }, 'RedisLockTestingModule'],
    ['pool', createClientPool(), 'Pass what `createClient` returns'],
    ['legacy view', createClient().legacy(), 'Pass the client itself'],
    ['Upstash', { ...methods('evalsha', 'eval'), client: {}, opts: {} }, 'rediss:// URL'],
  ])('is refused with what to write: %s', (library, client, advice) => {
    const { message } = thrownBy(() => checkConnection(client));
    expect(message).toMatch(
      /^Expected `connection` to be a client of ioredis 5 or 6, iovalkey, or redis 5 or 6, got (one|a pool|the legacy view)/,
    );
    expect([message.includes(library), message.includes(advice)]).toEqual([true, true]);
  });
});

describe('the masters of a quorum', () => {
  const PORT = 6390;
  const opened: { disconnect(): void }[] = [];
  const open = <T extends { disconnect(): void }>(client: T): T => {
    opened.push(client);
    return client;
  };

  const SAME: Record<string, () => unknown> = {
    'a URL': () => `redis://127.0.0.1:${PORT}`,
    'a URL with a database and a password': () => `rediss://bob:secret@127.0.0.1:${PORT}/3`,
    options: () => ({ host: '127.0.0.1', port: PORT }),
    'a client of ioredis': () => open(new Redis({ host: '127.0.0.1', port: PORT, lazyConnect: true })),
    'a client of node-redis': () => createClient({ socket: { host: '127.0.0.1', port: PORT } }),
    'a client of node-redis by its URL': () => createClient({ url: `redis://127.0.0.1:${PORT}/1` }),
    'a client of iovalkey': () => open(new Valkey({ host: '127.0.0.1', port: PORT, lazyConnect: true })),
  };

  afterEach(() => {
    for (const client of opened.splice(0)) client.disconnect();
  });

  const pairs = Object.keys(SAME).flatMap((a) => Object.keys(SAME).map((b) => [a, b]));

  it.each(pairs)('are refused when they are one server, as %s and %s', (a, b) => {
    const check = () => checkConnection([{ host: 'other' }, SAME[a]!(), SAME[b]!()]);
    expect(check).toThrow(LockConfigurationError);
    expect(check).toThrow('the same one as [1] and [2]');
    expect(check).not.toThrow('secret');
  });

  it.each(Object.entries(SAME))('are several when their ports differ: %s', (_what, one) => {
    const others = [
      `redis://127.0.0.1:${PORT + 1}`,
      { host: '127.0.0.1', port: PORT + 2 },
      'redis://127.0.0.1',
      '/tmp/x',
    ];
    expect(() => checkConnection([one(), ...others.slice(0, 3), { path: others[3] }])).not.toThrow();
  });

  it.each([
    ['unix:///run/redis.sock', { path: '/run/redis.sock' }],
    ['redis://LOCALHOST', { port: 6379 }],
    ['redis://localhost', { url: 'redis://localhost', family: 4 }],
    ['redis://[::1]:7000', { host: '::1', port: 7000 }],
  ])('are compared by what the URL %s means', (url, options) => {
    expect(() => checkConnection([url, options, 'redis://c'])).toThrow('the same one as [0] and [1]');
  });
});
