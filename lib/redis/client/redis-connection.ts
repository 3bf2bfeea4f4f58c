import type { ConnectionOptions } from 'node:tls';

// The types of the option `connection` are our own: a declaration that imported those of a client library would not compile
// in an app without that library.

/** Where a node of a cluster or a sentinel listens. */
export interface RedisNodeAddress {
  readonly host?: string;
  readonly port?: number;
}

/** The address by which this process reaches a server that announces another one; null for the same. */
export type RedisNatMap =
  | { readonly [announced: string]: { readonly host: string; readonly port: number } }
  | ((announced: string) => { readonly host: string; readonly port: number } | null);

/** The pause in milliseconds before the next try; anything else to give up. */
type RetryStrategy = ((times: number, reason?: Error) => number | void | null) | null;

/** What the connections to one server and to the nodes of a cluster have in common. */
interface SharedOptions {
  readonly username?: string;
  readonly password?: string;
  readonly tls?: ConnectionOptions;
  readonly family?: number;
  readonly connectionName?: string;
  /** @default 3_000 */
  readonly connectTimeout?: number;
  readonly disconnectTimeout?: number;
  readonly socketTimeout?: number;
  readonly keepAlive?: number;
  readonly noDelay?: boolean;
  readonly protocol?: 2 | 3;
  readonly replyMapping?: 'legacy' | 'resp3';
  readonly stringNumbers?: boolean;
  readonly disableClientInfo?: boolean;
  readonly clientInfoTag?: string;
  readonly maxLoadingRetryTime?: number;
  readonly familyFallback?: object;
  readonly Connector?: unknown;
  // Our own connections replace these, so that nothing is sent late.
  readonly autoResubscribe?: boolean;
  readonly autoResendUnfulfilledCommands?: boolean;
  readonly reconnectOnError?: ((error: Error) => boolean | 1 | 2) | null;
  readonly commandTimeout?: number;
  readonly blockingTimeout?: number;
  readonly blockingTimeoutGrace?: number;
  readonly maxRetriesPerRequest?: number | null;
  readonly offlineQueue?: boolean;
  readonly commandQueue?: boolean;
  readonly monitor?: boolean;
}

/** What a single connection and a cluster have in common. */
interface ClientOptions {
  readonly keyPrefix?: string;
  readonly natMap?: RedisNatMap;
  readonly lazyConnect?: boolean;
  readonly enableReadyCheck?: boolean;
  readonly enableOfflineQueue?: boolean;
  readonly enableAutoPipelining?: boolean;
  readonly autoPipeliningIgnoredCommands?: string[];
  readonly scripts?: object;
  readonly himportFieldsets?: readonly unknown[];
  readonly showFriendlyErrorStack?: boolean;
}

/** One Redis, or the master that sentinels name, in the format of ioredis. */
export interface RedisConnectionOptions extends SharedOptions, ClientOptions {
  /** @default 'localhost' */
  readonly host?: string;
  /** @default 6379 */
  readonly port?: number;
  /** The path of a Unix socket, instead of `host` and `port`. */
  readonly path?: string;
  readonly db?: number;
  readonly readOnly?: boolean;
  readonly retryStrategy?: RetryStrategy;
  /** The sentinels, which name the master of the group `name`. */
  readonly sentinels?: readonly RedisNodeAddress[];
  readonly name?: string;
  readonly role?: 'master' | 'slave';
  readonly sentinelUsername?: string;
  readonly sentinelPassword?: string;
  readonly sentinelTLS?: ConnectionOptions;
  readonly enableTLSForSentinelMode?: boolean;
  /** @default 1_000 */
  readonly sentinelCommandTimeout?: number;
  readonly sentinelRetryStrategy?: RetryStrategy;
  readonly sentinelReconnectStrategy?: RetryStrategy;
  readonly sentinelMaxConnections?: number;
  readonly preferredSlaves?: unknown;
  readonly updateSentinels?: boolean;
  readonly failoverDetector?: boolean;
}

/** A Redis Cluster by some of its nodes, with the options of ioredis' `Cluster`. */
export interface RedisClusterOptions extends ClientOptions {
  readonly cluster: readonly (RedisNodeAddress | string | number)[];
  /** The options of the connections to the nodes. */
  readonly redisOptions?: SharedOptions & Omit<RedisConnectionOptions, 'host' | 'port' | 'path' | 'sentinels'>;
  readonly clusterRetryStrategy?: RetryStrategy;
  readonly clusterNodeRetryStrategy?: RetryStrategy;
  readonly scaleReads?: unknown;
  readonly maxRedirections?: number;
  readonly retryDelayOnFailover?: number;
  readonly retryDelayOnClusterDown?: number;
  readonly retryDelayOnTryAgain?: number;
  readonly retryDelayOnMoved?: number;
  readonly slotsRefreshTimeout?: number;
  readonly slotsRefreshInterval?: number;
  readonly shardedSubscribers?: boolean;
  readonly useSRVRecords?: boolean;
  readonly resolveSrv?: unknown;
  readonly dnsLookup?: unknown;
}

type Method = (...args: never[]) => unknown;

/** A client of ioredis or iovalkey: a `Redis`, a `Valkey` or a `Cluster`. */
export interface IoredisClient {
  readonly status: string;
  readonly options: object;
  readonly evalsha: Method;
  readonly duplicate: Method;
  readonly disconnect: Method;
  readonly on: Method;
}

/** A client of node-redis: what `createClient`, `createSentinel` or `createCluster` returns. */
export interface NodeRedisClient {
  readonly isOpen: boolean;
  readonly evalSha: Method;
  readonly duplicate: Method;
  readonly destroy: Method;
  readonly on: Method;
}

/** What the library opens a connection of its own by. */
export type RedisAddress = string | RedisConnectionOptions | RedisClusterOptions;

/**
 * How to reach Redis: a URL, options (with `sentinels` and `name` for Sentinel), the nodes of a cluster, or a client of
 * ioredis, iovalkey or node-redis, which is used and never closed.
 */
export type RedisConnection = RedisAddress | IoredisClient | NodeRedisClient;
