import { inspect } from 'node:util';
import { Logger } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { Redis, type RedisOptions } from 'ioredis';
import { LockConfigurationError, RedisLockModule, type RedisLockModuleOptions } from '../../../lib/index.js';
import { resolveModuleOptions } from '../../../lib/redis-lock.options.js';
import { ownRedis } from '../../support/redis/own-redis.js';
import { closeAll, openAdmin, startApp } from '../../support/apps/lock-app.js';
import { redisUrl } from '../../support/topologies/topology.js';

afterEach(closeAll);

/** The error of an app that starts with these options; what is checked at import throws there. */
async function errorOf(options: unknown): Promise<Error> {
  try {
    const lockModule = RedisLockModule.forRoot(options as RedisLockModuleOptions);
    const app = await Test.createTestingModule({ imports: [lockModule] }).compile();
    await app.close();
  } catch (error) {
    return error as Error;
  }
  throw new Error('The app has started.');
}

async function expectRefused(connection: unknown, ...parts: string[]): Promise<void> {
  const error = await errorOf({ connection });
  expect(error).toBeInstanceOf(LockConfigurationError);
  for (const part of parts) expect(error.message).toContain(part);
  expect(error.message).not.toContain('secret');
}

/** The master `mymaster` by its sentinels. */
function groupOf(...sentinels: string[]) {
  const addresses = sentinels.map((sentinel) => sentinel.split(':'));
  return {
    sentinels: addresses.map(([host, port]) => ({ host, ...(port && { port: Number(port) }) })),
    name: 'mymaster',
  };
}

/** A client that never connects. */
const clientOf = (options: RedisOptions): Redis => new Redis({ ...options, lazyConnect: true });

const WHOLE = 'a whole number of milliseconds';
const MONTH_MS = 31 * 24 * 3_600_000;

describe('a wrong option stops the app, with its name, its value and what was expected', () => {
  it.each([
    ['name', '', 'a non-empty string', '""'],
    ['name', 5, 'a non-empty string', '5'],
    ['isGlobal', 'no', 'true or false', 'no'],
    ['connection', 'localhost:6379', 'a redis:// or rediss:// URL', 'a string that is no such URL'],
    [
      'connection',
      6379,
      'ioredis options, `{ cluster: [nodes] }` or a client of ioredis, iovalkey or node-redis',
      '6379',
    ],
    ['connection', { cluster: [] }, 'to be a list with at least one of its nodes', '`cluster`'],
    [
      'connection',
      { evalsha: () => null },
      'a client of ioredis, iovalkey or node-redis',
      'looks like a client, but lacks `eval()`, `duplicate()`',
    ],
    ['connection', [], 'the masters of a quorum', 'an empty list'],
    ['connection', ['redis://a', 'redis://b', 'redis://a'], 'independent masters', 'the same one as [0] and [2]'],
    ['connection', [{ port: 7001 }, { port: 7001, host: 'localhost' }], 'independent masters', '[0] and [1]'],
    ['connection', [groupOf('a', 'b'), groupOf('c'), groupOf('d:26379', 'B')], 'independent masters', '[0] and [2]'],
    ['connection', [groupOf('a'), { port: 1 }, clientOf(groupOf('z', 'a'))], 'independent masters', '[0] and [2]'],
    ['hashTag', 'order', 'a function of the key', 'string'],
    ['minReplicas', -1, 'a whole number from 0 to 100', '-1'],
    ['replicaTimeoutMs', 0, `${WHOLE} from 1 to 60000`, '`0` (number)'],
    ['keyPrefix', '', '1 to 128 characters', '""'],
    ['keyPrefix', 'a'.repeat(129), '1 to 128 characters', 'aaa'],
    [
      'keyPrefix',
      '{lock}:',
      'without braces',
      '"{lock}:". To put keys into one slot of a cluster, use the option `hashTag`.',
    ],
    [
      'keyPrefix',
      'redis://:hush@a/{0}',
      '1 to 128 characters',
      'got a text with `://` or `@`, which may contain a password.',
    ],
    ['keyPrefix', 'a\ud83d', '1 to 128 characters', '"a\\ud83d"'],
    ['keyPrefix', 5, 'a string', '5'],
    ['leaseMs', 49, `${WHOLE} from 50 to 2592000000 (30 days)`, '`49` (number)'],
    ['leaseMs', '30s', `${WHOLE} from 50 to 2592000000 (30 days)`, '`30s` (string)'],
    ['waitMs', -1, `${WHOLE} from 0 up, or Infinity`, '`-1` (number)'],
    ['maxHoldMs', 0, `${WHOLE} from 1 up, or Infinity`, '`0` (number)'],
    ['awaitRelease', 'no', 'true or false', '`no` (string)'],
    ['drainMs', Infinity, `${WHOLE} from 0 to 3600000 (1 hour)`, '`Infinity` (number)'],
    ['keepMs', 59_999, `${WHOLE} from 60000 to ${MONTH_MS}`, '`59999` (number)'],
  ])('%s: %p', async (name, value, expected, got) => {
    const error = await errorOf({ connection: redisUrl(), [name]: value });
    expect(error).toBeInstanceOf(LockConfigurationError);
    expect(error.message).toContain(`\`${name}\``);
    expect(error.message).toContain(expected);
    expect(error.message).toContain(got);
  });

  it.each([
    [['redis://a', 6379], 'Expected `connection[1]` to be a redis:// or rediss:// URL', 'got 6379'],
    [['redis://a', { cluster: [{ port: 7001 }] }], 'Expected `connection[1]` to be one master', 'got a cluster'],
  ])('a master of a quorum: %j', async (connection, expected, got) => {
    const { message } = await errorOf({ connection });
    expect([message.includes(expected), message.includes(got)]).toEqual([true, true]);
  });

  it.each<[string, RedisOptions[]]>([
    ['groups that have all named their master the same', [groupOf('a', 'b'), groupOf('c', 'd'), groupOf('e', 'f')]],
    ['masters of one group of sentinels', ['one', 'two', 'three'].map((name) => ({ ...groupOf('a', 'b'), name }))],
    ['sentinels on one host', [groupOf('a:1', 'a:2'), groupOf('a:3', 'a:4'), groupOf('a:5')]],
  ])('except a quorum of %s', (_what, connection) => {
    expect(resolveModuleOptions({ connection })).toMatchObject({ connection, isQuorum: true });
  });

  it.each<[object | string, string, string]>([
    [{ uri: 'redis://a' }, 'Unknown option `uri`', 'Write `url` instead.'],
    [{ host: 'a', keyPrefix: 'shop:' }, '`keyPrefix`', 'Write the `keyPrefix` of the module, next to `connection`,'],
    [{ cluster: ['a:1'], keyPrefix: 'shop:' }, '`keyPrefix`', 'Write the `keyPrefix` of the module'],
    [{ hots: 'a' }, 'Unknown option `hots`', 'Write `host` instead.'],
    [{ host: 'a', conectTimeout: 5 }, '`conectTimeout`', 'Write `connectTimeout` instead.'],
    [{ host: 'a', nonsense: undefined }, '`nonsense`', 'pass a client'],
    [{ socket: { host: 'a', port: 1 } }, '`socket`', 'Write { host, port } themselves instead.'],
    [{ nodes: ['a:1'] }, '`nodes`', 'Write `cluster: [{ host, port }]` instead.'],
    [{ rootNodes: [{ url: 'redis://a' }] }, '`rootNodes`', 'Write `cluster: [{ host, port }]` instead.'],
    [{ sentinelRootNodes: [] }, '`sentinelRootNodes`', 'Write `sentinels: [{ host, port }]` instead.'],
    [{ client: clientOf({}) }, '`client`', 'the client itself as `connection`'],
    [{ url: 'https://a', token: 'secret' }, '`token`', 'not that of its REST API'],
    [{ cluster: ['a:1'], password: 'secret' }, '`password`', 'Write it in `redisOptions`'],
    [{ cluster: ['a:1'], pass: 'secret' }, '`pass`', 'Write `password` in `redisOptions`'],
    [{ cluster: ['a:1'], host: 'a' }, '`host`', 'Leave it out.'],
    [{ cluster: ['a:1'], redisOptions: { host: 'b' } }, '`host` of `redisOptions` of `connection`', 'Leave it out.'],
    [{ cluster: ['a:1'], redisOptions: { passwort: 'secret' } }, '`passwort`', 'Write `password` instead.'],
    [{ cluster: [{ host: undefined, port: 1 }] }, '`cluster[0]`', '`host` without a value'],
    [{ sentinels: [{ host: undefined }], name: 'a' }, '`sentinels[0]`', '`host` without a value'],
    [{ sentinels: [{ host: 'a' }] }, '`connection`', 'the `name` of the master'],
    [{ host: undefined, port: 6379 }, 'to have the address of Redis', '`host` without a value'],
    [{}, 'to have the address of Redis', 'got none of them'],
    [{ host: '' }, '`host`', 'an empty one'],
    [{ host: 'a', port: Number.NaN }, '`port`', 'from 1 to 65535, got `NaN`'],
    [{ host: 'a', connectTimeout: '500' }, '`connectTimeout`', '`500` (string)'],
    [{ host: 'a', connectTimeout: -1 }, '`connectTimeout` to be a number from 0', '`-1` (number)'],
    [{ host: 'a', connectTimeout: 2 ** 31 }, '`connectTimeout` to be a number from 0 to 2000000000', '`2147483648`'],
    [{ host: 'a', password: 12_345 }, '`password` of `connection` to be a text', 'got a value of type number.'],
    [{ host: 'a', username: ['a'] }, '`username` of `connection` to be a text', 'got a value of type object.'],
    [{ cluster: ['a:1'], redisOptions: { password: 1 } }, '`password` of `redisOptions`', 'type number.'],
    [{ host: 'a', tls: { ca: 5 } }, '`tls` of `connection` to be options of `tls.connect`', 'refuses them: The "'],
    [{ host: 'a', tls: 'false' }, '`tls` to be an object of options for `tls.connect`', '`false` (string)'],
    [{ host: 'a', tls: { cert: 'secret', key: 'secret' } }, '`tls` of `connection`', 'which refuses them: '],
    [{ ...groupOf('a'), sentinelTLS: { ciphers: 'NONE' } }, '`sentinelTLS` of `connection`', 'which refuses them: '],
    [{ cluster: ['a:1'], redisOptions: { tls: { ca: 5 } } }, '`tls` of `redisOptions`', 'which refuses them: '],
    [{ host: 'a', family: 5 }, '`family` to be 0, 4 or 6 in `connection`', '`5` (number)'],
    [{ url: 'redis://a?family=5' }, '`family` to be 0, 4 or 6', '`5` (number)'],
    ['redis://a?family=5', '`family` to be 0, 4 or 6', '`5` (number)'],
    ['redis://a/12345678901', '`db` to be a whole number from 0', '`12345678901` (number)'],
    [{ host: 'a', db: -1 }, '`db`', '`-1` (number)'],
    [{ host: 'a', db: 1.5 }, '`db`', '`1.5` (number)'],
    [{ host: 'a', db: '01' }, '`db` to be a whole number from 0', '`01` (string)'],
    [{ cluster: ['a:1'], slotsRefreshInterval: -1 }, '`slotsRefreshInterval`', '`-1` (number)'],
    [{ cluster: ['a:1'], slotsRefreshInterval: '5' }, '`slotsRefreshInterval`', '`5` (string)'],
    [{ cluster: ['a:1'], redisOptions: { keepAlive: -1 } }, '`keepAlive`', '`-1` (number)'],
    [Object.create({ host: 'a' }) as object, 'an object that inherits', 'pass a plain object'],
    [new (class Config { readonly host = 'a'; })(), 'an object of class Config', 'pass a plain object'], // prettier-ignore
    ['redis://', 'the URL of `connection`', 'redis://HOST:PORT'],
    ['redis://a?connectTimeout=500', 'the URL of `connection`', '`connectTimeout`; write options next to the URL'],
    ['redis://:secret@a?nonsense=1', 'the URL of `connection`', '`nonsense`'],
    ['https://a.example', 'a redis:// or rediss:// URL', 'the URL of a REST API'],
    [
      new Proxy({}, { get: (_, option) => ({ host: 'a' })[String(option)] }),
      'in one of its own properties:',
      'got none of them',
    ],
    [Object.defineProperty({}, 'host', { value: 'a' }), 'in one of its own properties:', 'got none of them'],
    ['redis://a/1?db=2', 'the URL of `connection` to have `db` once', 'leave one of them out'],
    ['redis://a?family=4&family=6', 'the URL of `connection` to have `family` once', 'leave one of them out'],
    ['redis://undefined:6379', 'the URL of `connection`', 'redis://HOST:PORT'],
    ...['valkeys:', 'https:', 'amqp:', 'redis+tls:'].map((scheme): [object, string, string] => [
      { url: `${scheme}//:secret@a` },
      'the URL of `connection` to begin with redis://, rediss:// or unix://',
      `got ${scheme}//`,
    ]),
    [{ url: 'localhost:6379' }, 'the URL of `connection` to begin with redis://', 'got another text'],
    ...['port', 'db', 'family', 'connectTimeout'].map((option): [object, string, string] => [
      { host: 'a', [option]: 'redis://:secret@a' },
      `\`${option}\``,
      'got a text with `://` or `@`, which may contain a password',
    ]),
    [{ cluster: ['a:1'], redisOptions: 'redis://:secret@a' }, '`redisOptions`', 'which may contain a password'],
    ['redis://u:12?secret@a', 'to have no parameters', 'which may contain a password'],
  ])('a connection that a library would misread: %j', async (connection, expected, got) =>
    expectRefused(connection, expected, got),
  );

  class NodeConfig {
    get host(): string {
      return 'a';
    }
  }
  const ADDRESS = 'to be one address, as { host, port }';
  const OF_OBJECT: [unknown, string, string][] = [
    [{ url: 'redis://:secret@a:7000' }, 'Unknown option `url`', 'Write { host, port } instead.'],
    [{ hostname: 'a', port: 7000 }, 'Unknown option `hostname`', 'Write `host` instead.'],
    [{ ip: 'a', port: 7000 }, 'Unknown option `ip`', 'Write `host` instead.'],
    [{ socket: { host: 'a', port: 7000 } }, 'Unknown option `socket`', 'Write { host, port } instead.'],
    [{ path: '/run/redis.sock' }, 'Unknown option `path`', 'Leave it out.'],
    [new URL('redis://a:7000'), ADDRESS, 'a URL object'],
    [new NodeConfig(), ADDRESS, 'an object of class NodeConfig; pass a plain object'],
    [new Proxy({}, { get: () => 7000 }), 'in one of its own properties:', 'got none of them'],
    [['a', 7000], ADDRESS, 'an object of class Array'],
    [{ host: ' ' }, '`host`', 'an empty one'],
    [{ host: 'a', port: 0 }, '`port`', 'from 1 to 65535, got `0`'],
    [null, ADDRESS, 'got null'],
    [undefined, ADDRESS, 'got undefined'],
  ];
  it.each<[unknown, string, string]>([
    ...OF_OBJECT,
    [Number.NaN, '`port`', 'from 1 to 65535, got `NaN`'],
    [' ', 'the URL of', 'redis://HOST:PORT'],
    ['http://a:7000', ADDRESS, 'got a text with `://`'],
    ['u:secret@a:7000', ADDRESS, 'which may contain a password'],
    [':7000', ADDRESS, 'got `:7000`'],
    ['a:1,b:2', ADDRESS, 'got `a:1,b:2`'],
    ['undefined:7000', 'the URL of', 'redis://HOST:PORT'],
    ['redis://undefined:7000', 'the URL of', 'redis://HOST:PORT'],
    ['unix:///run/redis.sock', ADDRESS, 'got a text with `://`'],
    ['redis://a:7000/1', 'database', 'Leave it out.'],
    ['rediss://u:secret@a', '`username`, `password`, `tls`', 'Write `redisOptions: { username, password, tls: {} }`'],
  ])('a node of a cluster that a library would misread: %p', async (node, expected, got) => {
    await expectRefused({ cluster: [node] }, '`cluster[0]` of `connection`', expected, got);
  });

  it.each<[unknown, string, string]>([...OF_OBJECT, ['a:26379', ADDRESS, 'got `a:26379`']])(
    'a sentinel that a library would misread: %p',
    async (sentinel, expected, got) => {
      const connection = { sentinels: [sentinel], name: 'mymaster' };
      await expectRefused(connection, '`sentinels[0]` of `connection`', expected, got);
    },
  );

  it('a replicaTimeoutMs as long as the lease', async () => {
    const options = { connection: redisUrl(), leaseMs: 1_000, minReplicas: 1, replicaTimeoutMs: 1_000 };
    expect((await errorOf(options)).message).toContain('to be shorter than the lease of 1000 ms, got 1000');
    await expect(errorOf({ ...options, minReplicas: 0 })).rejects.toThrow('The app has started.');
  });

  it('an unknown name, listing the known ones', async () => {
    const error = await errorOf({ lease: 5 });
    expect(error).toBeInstanceOf(LockConfigurationError);
    expect(error.message).toMatch(
      /Unknown option `lease` of RedisLockModule; expected one of name, isGlobal, connection/,
    );
  });

  it.each([
    ['null', null],
    ['a string', 'redis://'],
  ])('%s instead of the options, from a factory', async (_what, options) => {
    const lockModule = RedisLockModule.forRootAsync({ useFactory: () => options as unknown as RedisLockModuleOptions });
    const compiled = Test.createTestingModule({ imports: [lockModule] }).compile();
    await expect(compiled).rejects.toThrow('Expected the options of RedisLockModule to be an object');
  });

  it('null instead of the options, for forRoot', async () => {
    expect(await errorOf(null)).toBeInstanceOf(LockConfigurationError);
  });

  it('without the password of a URL', async () => {
    for (const url of ['reds://:secret@host', 'redis://:secret@host:99999', 'redis://u:secret%zz@host:1']) {
      const error = await errorOf({ connection: url });
      expect(error).toBeInstanceOf(LockConfigurationError);
      expect(inspect(error, { depth: 9 })).not.toContain('secret');
    }
  });

  it.each([{ passphrase: 271_828 }, { key: [{ pem: 'a', passphrase: 271_828 }] }, { key: 271_828 }])(
    'without a secret of TLS of another type: %j',
    async (tls) => {
      const error = await errorOf({ connection: { host: 'a', tls: { key: 'a', ...tls } } });
      expect(error).toBeInstanceOf(LockConfigurationError);
      expect(error.message).toMatch(/which refuses them: The "options.*must be of type string/);
      expect(inspect(error, { depth: 9 })).not.toContain('271828');
    },
  );
});

describe('a connection that was not given', () => {
  const ENVIRONMENT = process.env['NODE_ENV'];
  afterEach(() => void (process.env['NODE_ENV'] = ENVIRONMENT));

  it.each([[{}], [{ connection: undefined }]])('leads to this machine, and the log reports it: %j', async (options) => {
    const warn = jest.spyOn(Logger.prototype, 'warn').mockImplementation(() => undefined);
    await expect(errorOf(options)).rejects.toThrow('The app has started.');
    expect(warn).toHaveBeenCalledWith('Locks on 127.0.0.1:6379, because no connection was given.');
    warn.mockRestore();
  });

  it.each([[{}], [{ connection: undefined }]])('is refused in production: %j', async (options) => {
    process.env['NODE_ENV'] = 'production';
    const { message } = await errorOf(options);
    expect(message).toMatch(/^Expected `connection` to be set where NODE_ENV is `production`, got none/);
    await expect(errorOf({ connection: 'redis://127.0.0.1:6379' })).rejects.toThrow('The app has started.');
  });
});

it('options next to a URL are those of its connection', async () => {
  const { admin, url } = await ownRedis();
  const { locks } = await startApp({ connection: { url, db: 3, connectionName: 'locks' } });
  await locks.acquire('a');
  expect(await admin.info('keyspace')).toContain('db3:');
  expect(String(await admin.client('LIST'))).toContain('name=locks');
});

it('a wrong option does not leave a connection behind', async () => {
  // A separate server: other spec files also connect to the shared Redis.
  const { admin, url } = await ownRedis();
  const before = String(await admin.client('LIST')).split('\n').length;
  await errorOf({ connection: url, leaseMs: 1 });
  // Connections are accepted in order, so one that was left open would be in the list.
  await openAdmin(url).ping();
  expect(String(await admin.client('LIST')).split('\n')).toHaveLength(before + 1);
});
