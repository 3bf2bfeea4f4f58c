import * as ioredis from 'ioredis';
import * as iovalkey from 'iovalkey';
import * as redis from 'redis';
import type {
  RedisClusterOptions,
  RedisConnection,
  RedisConnectionOptions,
} from '../../lib/redis/client/redis-connection.js';

/** What `connection` must accept and refuse. The types are our own: they must fit the clients of every library. */
declare function connect(connection: RedisConnection | readonly RedisConnection[]): void;

/** An option that is missing here is refused as unknown; the module has its own key prefix. */
type IsEmpty<Names> = [Exclude<Names, 'keyPrefix'>] extends [never] ? true : Names;
export const knowsOptions: [
  IsEmpty<Exclude<keyof ioredis.RedisOptions | keyof iovalkey.RedisOptions, keyof RedisConnectionOptions>>,
  IsEmpty<Exclude<keyof ioredis.ClusterOptions | keyof iovalkey.ClusterOptions, keyof RedisClusterOptions>>,
] = [true, true];

export function accepted(
  ofIoredis: ioredis.RedisOptions,
  ofIovalkey: iovalkey.RedisOptions,
  ofCluster: ioredis.ClusterOptions,
  nodes: ioredis.ClusterNode[],
): void {
  connect('redis://127.0.0.1:6379');
  connect(['redis://a', 'redis://b', { host: 'c' }]);
  connect({ url: 'redis://a', family: 6 });
  connect({ host: 'localhost', port: 6380, password: 'secret', db: 1, tls: { rejectUnauthorized: false } });
  connect({ path: '/run/redis.sock', retryStrategy: (times) => times * 10, reconnectOnError: () => 2 });
  connect({
    sentinels: [{ host: 'a', port: 26_379 }, { host: 'b' }],
    name: 'mymaster',
    natMap: { a: { host: 'b', port: 1 } },
  });
  connect({
    cluster: [{ host: 'a', port: 7000 }, 'b:7000', 7001],
    scaleReads: 'slave',
    redisOptions: { password: 'secret' },
  });
  connect({ cluster: nodes, ...ofCluster });
  connect(ofIoredis);
  connect(ofIovalkey);
  connect({ ...ofIoredis, lazyConnect: true });

  connect(new ioredis.Redis());
  connect(new ioredis.Redis({ replyMapping: 'resp3' }));
  connect(new ioredis.Cluster([{ host: 'a' }]));
  connect(new iovalkey.Redis());
  connect(new iovalkey.Valkey());
  connect(new iovalkey.Cluster([{ host: 'a' }]));
  connect(redis.createClient());
  connect(redis.createClient({ RESP: 2, url: 'redis://a' }));
  connect(redis.createClient({ RESP: 3, database: 3, disableOfflineQueue: true }));
  connect(redis.createSentinel({ name: 'mymaster', sentinelRootNodes: [{ host: 'a', port: 26_379 }] }));
  connect(redis.createCluster({ rootNodes: [{ url: 'redis://a' }] }));
  connect([new ioredis.Redis(), redis.createClient(), new iovalkey.Redis()]);
}

export function refused(): void {
  // @ts-expect-error A port alone is neither a URL nor options.
  connect(6379);
  // @ts-expect-error
  connect(null);
  // @ts-expect-error
  connect(true);
  // @ts-expect-error A client is awaited first.
  connect(redis.createClient().connect());
  // @ts-expect-error
  connect(Promise.resolve(new ioredis.Redis()));
  // @ts-expect-error
  connect(() => new ioredis.Redis());
  // @ts-expect-error The URL itself.
  connect(new URL('redis://a'));
  // @ts-expect-error The options are in the format of ioredis.
  connect({ socket: { host: 'a' } });
  // @ts-expect-error A misspelt option.
  connect({ hots: 'a' });
  // @ts-expect-error
  connect({ port: '6379' });
  // @ts-expect-error
  connect({ sentinels: 'a:26379', name: 'mymaster' });
  // @ts-expect-error
  connect({ cluster: 'a:7000' });
  // @ts-expect-error
  connect(new Map());
  // @ts-expect-error A pool chooses a connection for each command.
  connect(redis.createClientPool());
  // @ts-expect-error A pipeline is not a client.
  connect(new ioredis.Redis().pipeline());
  // @ts-expect-error
  connect(redis);
}
