import { type ClusterOptions, type RedisOptions } from 'ioredis';

/** The defaults of ioredis 6. */
const DEFAULTS = {
  host: 'localhost',
  port: 6379,
  db: 0,
  connectTimeout: 10_000,
  disconnectTimeout: 2_000,
  enableOfflineQueue: true,
  enableReadyCheck: true,
  autoResendUnfulfilledCommands: true,
  autoResubscribe: true,
  maxRetriesPerRequest: 20,
  maxLoadingRetryTime: 10_000,
  retryStrategy: (times: number): number | null => Math.min(times * 50, 2_000),
  sentinelRetryStrategy: (times: number): number | null => Math.min(times * 10, 1_000),
};
const CLUSTER_DEFAULTS = {
  clusterRetryStrategy: (times: number): number | null => Math.min(100 + times * 2, 2_000),
  enableOfflineQueue: true,
  enableReadyCheck: true,
  maxRedirections: 16,
  retryDelayOnMoved: 0,
  retryDelayOnFailover: 100,
  retryDelayOnClusterDown: 100,
  retryDelayOnTryAgain: 100,
  slotsRefreshTimeout: 1_000,
};

export type Options = typeof DEFAULTS & RedisOptions;
export type SimClusterOptions = typeof CLUSTER_DEFAULTS & ClusterOptions;

const given = (options: object): object =>
  Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));

/** The options of a client, with the defaults. */
export const optionsOf = (options: RedisOptions) => ({ ...DEFAULTS, ...given(options) }) as Options;

/** The options of a cluster client, with the defaults. */
export const clusterOptionsOf = (options: ClusterOptions) =>
  ({ ...CLUSTER_DEFAULTS, ...given(options) }) as SimClusterOptions;
