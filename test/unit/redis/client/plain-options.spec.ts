import { LockConfigurationError } from '../../../../lib/core/lock.errors.js';
import { readPlainOptions } from '../../../../lib/redis/client/plain-options.js';
import { type RedisAddress } from '../../../../lib/redis/client/redis-connection.js';
import { thrownBy } from '../../../support/waiting/rejection.js';

const read = (connection: RedisAddress) => readPlainOptions(connection, 'node-redis');
const LOCAL = { host: 'localhost', port: 6379 };

describe('options for a library that does not read those of ioredis', () => {
  it.each<[string, object]>([
    ['redis://a:7000/3', { at: { host: 'a', port: 7000 }, db: 3 }],
    ['redis://a?family=6&db=2', { at: { host: 'a', port: 6379 }, family: 6, db: 2 }],
    ['redis://a', { at: { host: 'a', port: 6379 }, tls: undefined, username: undefined, password: undefined }],
    ['rediss://bob:p%40ss@a/', { at: { host: 'a', port: 6379 }, tls: {}, username: 'bob', password: 'p@ss', db: 0 }],
    ['redis://:secret@a', { username: undefined, password: 'secret' }],
    ['redis://[::1]:7000', { at: { host: '::1', port: 7000 } }],
    ['unix:///run/a%20b.sock', { at: { path: '/run/a b.sock' }, db: 0 }],
  ])('come from the URL %s', (url, expected) =>
    expect(read(url)).toMatchObject({ connectTimeout: 3_000, ...expected }),
  );

  it('may accompany a URL', () => {
    const url = 'rediss://bob:secret@a:7000/3';
    expect(read({ url, family: 6, tls: { servername: 'b' }, password: undefined })).toMatchObject({
      at: { host: 'a', port: 7000 },
      db: 3,
      username: 'bob',
      password: 'secret',
      family: 6,
      tls: { servername: 'b' },
    });
    for (const twice of [{ db: 1 }, { host: 'b' }, { password: 'heim' }, { sentinels: [{ host: 'a' }], name: 'b' }]) {
      const { message } = thrownBy(() => read({ url, ...twice }));
      expect(message).toContain(`\`${Object.keys(twice)[0]}\` in its \`url\` or next to it, got both`);
      expect(message).not.toMatch(/secret|heim/);
    }
  });

  it('keep what every library has', () => {
    const access = { username: 'bob', password: 'secret', db: 2, family: 6, connectionName: 'app', connectTimeout: 50 };
    const tls = { rejectUnauthorized: false };
    const more = { tls, keepAlive: 1_000, noDelay: true, protocol: 2 as const };
    expect(read({ host: 'a', port: 7000, ...access, ...more })).toEqual({
      ...access,
      ...more,
      at: { host: 'a', port: 7000 },
      natMap: undefined,
    });
    expect(read({ path: '/run/redis.sock' }).at).toEqual({ path: '/run/redis.sock' });
    expect(read({})).toMatchObject({ at: LOCAL, db: 0, connectTimeout: 3_000 });
    expect(read({ db: '0' as never })).toMatchObject({ db: 0 });
  });

  it('name sentinels and their master', () => {
    const sentinels = [{ host: 'a', port: 1 }, { host: 'b' }];
    const natMap = { 'x:1': { host: 'y', port: 2 } };
    const options = { sentinels, name: 'mymaster', sentinelPassword: 'secret', password: 'other', natMap };
    expect(read(options)).toMatchObject({
      at: { sentinels: [sentinels[0], { host: 'b', port: 26_379 }], name: 'mymaster', password: 'secret' },
      password: 'other',
      natMap,
    });
  });

  it('name some nodes of a cluster', () => {
    const redisOptions = { password: 'secret', tls: {} };
    const cluster = [{ host: 'a' }, 'b:7000', 7001, 'redis://c:1/0', '7002', 'd', '[::1]:3'];
    const { at, ...rest } = read({ cluster, redisOptions });
    const [a, b, c] = [
      { host: 'a', port: 6379 },
      { host: 'b', port: 7000 },
      { host: 'c', port: 1 },
    ];
    const more = [{ ...LOCAL, port: 7002 }, { host: 'd', port: 6379 }, { host: '::1', port: 3 }]; // prettier-ignore
    expect(at).toEqual({ nodes: [a, b, { ...LOCAL, port: 7001 }, c, ...more] });
    expect(rest).toMatchObject({ password: 'secret', tls: {}, db: 0 });
  });

  it('leave out what our own connections decide for themselves', () => {
    const decided = {
      retryStrategy: () => null,
      maxRetriesPerRequest: null,
      lazyConnect: true,
      enableOfflineQueue: true,
    };
    expect(read({ host: 'a', ...decided })).toEqual(read({ host: 'a' }));
    expect(read({ cluster: ['a:1'], clusterRetryStrategy: () => null, redisOptions: { commandTimeout: 5 } })).toEqual(
      read({ cluster: ['a:1'] }),
    );
  });

  it.each<[string, RedisAddress]>([
    ['stringNumbers', { stringNumbers: true }],
    ['replyMapping', { host: 'a', replyMapping: 'resp3' }],
    ['role', { sentinels: [], name: 'a', role: 'slave' }],
    ['scaleReads', { cluster: ['a:1'], scaleReads: 'slave' }],
    ['redisOptions.readOnly', { cluster: ['a:1'], redisOptions: { readOnly: true } }],
    ['password', { cluster: ['a:1'], password: 'secret' }],
  ])('refuse what has no counterpart: %s', (name, connection) => {
    const error = thrownBy(() => read(connection));
    expect(error).toBeInstanceOf(LockConfigurationError);
    expect(error.message).toContain(`node-redis has no counterpart for the option \`${name}\` of \`connection\`.`);
    expect(error.message).toContain('Leave it out, pass a client of node-redis, or install ioredis.');
    expect(error.message).not.toContain('secret');
  });

  it.each([
    'redis://user:ge%heim@a',
    'redis://user:geheim@a:port',
    'redis://user:geheim@a/first',
    'redis://user:geheim@a?password=geheim',
    'redis://user:geheim@a?db=heim',
  ])('refuse the URL %s without its password', (url) => {
    const error = thrownBy(() => read(url));
    expect(error).toBeInstanceOf(LockConfigurationError);
    expect(error.message).toContain('`connection`');
    expect(error.message).not.toMatch(/heim/);
  });
});
