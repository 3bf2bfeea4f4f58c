import type { ConnectionOptions } from 'node:tls';

// The types of the option `connection` are our own: a declaration that imported those of a client library would not compile
// in an app without that library.

/** Where a node of a cluster or a sentinel listens. */
export interface RedisNodeAddress {
  readonly host?: string | undefined;
  readonly port?: number | undefined;
}

/** The address by which this process reaches a server that announces another one; null for the same. */
export type RedisNatMap =
  | { readonly [announced: string]: { readonly host: string; readonly port: number } }
  | ((announced: string) => { readonly host: string; readonly port: number } | null);

/** The pause in milliseconds before the next try; anything else to give up. */
export type RedisRetryStrategy = ((times: number, reason?: Error) => number | void | null) | null;

/** What the connections to one server and to the nodes of a cluster have in common. */
export interface RedisSharedOptions {
  readonly username?: string | undefined;
  readonly password?: string | undefined;
  readonly tls?: ConnectionOptions | undefined;
  readonly family?: number | undefined;
  readonly connectionName?: string | undefined;
  /** @default 3_000 */
  readonly connectTimeout?: number | undefined;
  readonly disconnectTimeout?: number | undefined;
  readonly socketTimeout?: number | undefined;
  readonly keepAlive?: number | undefined;
  readonly noDelay?: boolean | undefined;
  readonly protocol?: 2 | 3 | undefined;
  readonly replyMapping?: 'legacy' | 'resp3' | undefined;
  readonly stringNumbers?: boolean | undefined;
  readonly disableClientInfo?: boolean | undefined;
  readonly clientInfoTag?: string | undefined;
  readonly maxLoadingRetryTime?: number | undefined;
  readonly familyFallback?: object | undefined;
  readonly Connector?: unknown;
  // Our own connections replace these, so that nothing is sent late.
  readonly autoResubscribe?: boolean | undefined;
  readonly autoResendUnfulfilledCommands?: boolean | undefined;
  readonly reconnectOnError?: ((error: Error) => boolean | 1 | 2) | null | undefined;
  readonly commandTimeout?: number | undefined;
  readonly blockingTimeout?: number | undefined;
  readonly blockingTimeoutGrace?: number | undefined;
  readonly maxRetriesPerRequest?: number | null | undefined;
  readonly offlineQueue?: boolean | undefined;
  readonly commandQueue?: boolean | undefined;
  readonly monitor?: boolean | undefined;
}

/** What a single connection and a cluster have in common. */
export interface RedisClientOptions {
  readonly natMap?: RedisNatMap | undefined;
  readonly lazyConnect?: boolean | undefined;
  readonly enableReadyCheck?: boolean | undefined;
  readonly enableOfflineQueue?: boolean | undefined;
  readonly enableAutoPipelining?: boolean | undefined;
  readonly autoPipeliningIgnoredCommands?: string[] | undefined;
  readonly scripts?: object | undefined;
  readonly himportFieldsets?: readonly unknown[] | undefined;
  readonly showFriendlyErrorStack?: boolean | undefined;
}

/** One Redis, or the master that sentinels name, in the format of ioredis. */
export interface RedisConnectionOptions extends RedisSharedOptions, RedisClientOptions {
  /** A redis://, rediss:// or unix:// URL, instead of `host`, `port` and `path`. */
  readonly url?: string | undefined;
  /** @default 'localhost', where only a `port` is given */
  readonly host?: string | undefined;
  /** @default 6379 */
  readonly port?: number | undefined;
  /** The path of a Unix socket, instead of `host` and `port`. */
  readonly path?: string | undefined;
  readonly db?: number | undefined;
  readonly readOnly?: boolean | undefined;
  readonly retryStrategy?: RedisRetryStrategy | undefined;
  /** The sentinels, which name the master of the group `name`. */
  readonly sentinels?: readonly RedisNodeAddress[] | undefined;
  readonly name?: string | undefined;
  readonly role?: 'master' | 'slave' | undefined;
  readonly sentinelUsername?: string | undefined;
  readonly sentinelPassword?: string | undefined;
  readonly sentinelTLS?: ConnectionOptions | undefined;
  readonly enableTLSForSentinelMode?: boolean | undefined;
  /** @default 1_000 */
  readonly sentinelCommandTimeout?: number | undefined;
  readonly sentinelRetryStrategy?: RedisRetryStrategy | undefined;
  readonly sentinelReconnectStrategy?: RedisRetryStrategy | undefined;
  readonly sentinelMaxConnections?: number | undefined;
  readonly preferredSlaves?: unknown;
  readonly updateSentinels?: boolean | undefined;
  readonly failoverDetector?: boolean | undefined;
}

/** A Redis Cluster by some of its nodes, with the options of ioredis' `Cluster`. */
export interface RedisClusterOptions extends RedisClientOptions {
  readonly cluster: readonly (RedisNodeAddress | string | number)[];
  /** The options of the connections to the nodes. */
  readonly redisOptions?:
    (RedisSharedOptions & Omit<RedisConnectionOptions, 'url' | 'host' | 'port' | 'path' | 'sentinels'>) | undefined;
  readonly clusterRetryStrategy?: RedisRetryStrategy | undefined;
  readonly clusterNodeRetryStrategy?: RedisRetryStrategy | undefined;
  readonly scaleReads?: unknown;
  readonly maxRedirections?: number | undefined;
  readonly retryDelayOnFailover?: number | undefined;
  readonly retryDelayOnClusterDown?: number | undefined;
  readonly retryDelayOnTryAgain?: number | undefined;
  readonly retryDelayOnMoved?: number | undefined;
  readonly slotsRefreshTimeout?: number | undefined;
  readonly slotsRefreshInterval?: number | undefined;
  readonly shardedSubscribers?: boolean | undefined;
  readonly useSRVRecords?: boolean | undefined;
  readonly resolveSrv?: unknown;
  readonly dnsLookup?: unknown;
}

/** A client of ioredis or iovalkey: a `Redis`, a `Valkey` or a `Cluster`. */
export interface IoredisClient {
  readonly status: string;
  readonly options: object;
  readonly evalsha: (...args: never[]) => unknown;
  readonly duplicate: (...args: never[]) => unknown;
  readonly disconnect: (...args: never[]) => unknown;
  readonly on: (...args: never[]) => unknown;
}

/** A client of node-redis: what `createClient`, `createSentinel` or `createCluster` returns. */
export interface NodeRedisClient {
  readonly isOpen: boolean;
  readonly evalSha: (...args: never[]) => unknown;
  readonly duplicate: (...args: never[]) => unknown;
  readonly destroy: (...args: never[]) => unknown;
  readonly on: (...args: never[]) => unknown;
}

/** What the library opens a connection of its own by. */
export type RedisAddress = string | RedisConnectionOptions | RedisClusterOptions;

/**
 * How to reach Redis: a URL, options (with `sentinels` and `name` for Sentinel), the nodes of a cluster, or a client of
 * ioredis, iovalkey or node-redis, of which the module uses duplicates.
 */
export type RedisConnection = string | RedisConnectionOptions | RedisClusterOptions | IoredisClient | NodeRedisClient;
