import type { ConnectionOptions } from 'node:tls';

// The types of the option `connection` are our own: a declaration that imported those of a client library would not compile
// in an app without that library.

/** One Redis, or the master that sentinels name, in the format of ioredis. */
export interface RedisConnectionOptions {
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
  /** Returns the pause in milliseconds before the next try; anything else to give up. */
  readonly retryStrategy?: ((times: number, reason?: Error) => number | void | null) | null | undefined;
  /** The sentinels, which name the master of the group `name`. */
  readonly sentinels?: readonly Pick<RedisConnectionOptions, 'host' | 'port'>[] | undefined;
  readonly name?: string | undefined;
  readonly role?: 'master' | 'slave' | undefined;
  readonly sentinelUsername?: string | undefined;
  readonly sentinelPassword?: string | undefined;
  readonly sentinelTLS?: ConnectionOptions | undefined;
  readonly enableTLSForSentinelMode?: boolean | undefined;
  /** @default 1_000 */
  readonly sentinelCommandTimeout?: number | undefined;
  readonly sentinelRetryStrategy?: RedisConnectionOptions['retryStrategy'];
  readonly sentinelReconnectStrategy?: RedisConnectionOptions['retryStrategy'];
  readonly sentinelMaxConnections?: number | undefined;
  readonly preferredSlaves?: unknown;
  readonly updateSentinels?: boolean | undefined;
  readonly failoverDetector?: boolean | undefined;
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
  /** The address by which this process reaches a server that announces another one; null for the same. */
  readonly natMap?:
    | { readonly [announced: string]: { readonly host: string; readonly port: number } }
    | ((announced: string) => { readonly host: string; readonly port: number } | null)
    | undefined;
  readonly lazyConnect?: boolean | undefined;
  readonly enableReadyCheck?: boolean | undefined;
  readonly enableOfflineQueue?: boolean | undefined;
  readonly enableAutoPipelining?: boolean | undefined;
  readonly autoPipeliningIgnoredCommands?: string[] | undefined;
  readonly scripts?: object | undefined;
  readonly himportFieldsets?: readonly unknown[] | undefined;
  readonly showFriendlyErrorStack?: boolean | undefined;
}

/** A Redis Cluster, given by some of its nodes, with the options of ioredis' `Cluster`. */
export interface RedisClusterOptions extends Pick<
  RedisConnectionOptions,
  | 'natMap'
  | 'lazyConnect'
  | 'enableReadyCheck'
  | 'enableOfflineQueue'
  | 'enableAutoPipelining'
  | 'autoPipeliningIgnoredCommands'
  | 'scripts'
  | 'himportFieldsets'
  | 'showFriendlyErrorStack'
> {
  readonly cluster: readonly (Pick<RedisConnectionOptions, 'host' | 'port'> | string | number)[];
  /** The options of the connections to the nodes. */
  readonly redisOptions?: Omit<RedisConnectionOptions, 'url' | 'host' | 'port' | 'path' | 'sentinels'> | undefined;
  readonly clusterRetryStrategy?: RedisConnectionOptions['retryStrategy'];
  readonly clusterNodeRetryStrategy?: RedisConnectionOptions['retryStrategy'];
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

/** A client of node-redis: the result of `createClient`, `createSentinel` or `createCluster`. */
export interface NodeRedisClient {
  readonly isOpen: boolean;
  readonly evalSha: (...args: never[]) => unknown;
  readonly duplicate: (...args: never[]) => unknown;
  readonly destroy: (...args: never[]) => unknown;
  readonly on: (...args: never[]) => unknown;
}

/** The address of a node of a cluster or of a sentinel. */
export type RedisNodeAddress = Pick<RedisConnectionOptions, 'host' | 'port'>;

export type RedisNatMap = NonNullable<RedisConnectionOptions['natMap']>;

/** Used by the library to open its connections. */
export type RedisAddress = string | RedisConnectionOptions | RedisClusterOptions;

/**
 * How to reach Redis: a URL, options (with `sentinels` and `name` for Sentinel), the nodes of a cluster, or a client of
 * ioredis, iovalkey or node-redis, which the module duplicates.
 */
export type RedisConnection = string | RedisConnectionOptions | RedisClusterOptions | IoredisClient | NodeRedisClient;
