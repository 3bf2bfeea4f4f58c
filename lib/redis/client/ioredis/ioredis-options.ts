import type { Cluster, ClusterOptions, Redis, RedisOptions } from 'ioredis';
import { CONNECT_TIMEOUT_MS, DISCONNECT_TIMEOUT_MS, SLOTS_REFRESH_MS, reconnectDelayMs } from '../../timing.js';

/** Any client of ioredis or iovalkey, also of the caller's own copy. */
export type Ioredis = Redis | Cluster;

/** The retry strategy of a connection that another one replaces once it has ended. */
export const neverReconnect = (): null => null;

/** Whether a connection of ours stays closed once it has ended; a cluster never does. */
export const endsForGood = (client: Ioredis): boolean =>
  !client.isCluster && (client as Redis).options.retryStrategy === neverReconnect;

/**
 * Our own connections never queue a command: one that cannot be sent now, or that lost its connection, fails at once and
 * is never sent later, because we retry ourselves. They reconnect forever, soon after Redis is back, whatever the
 * application chose for its own connections.
 */
export const WITHOUT_QUEUE = {
  enableOfflineQueue: false,
  enableAutoPipelining: false,
  autoResendUnfulfilledCommands: false,
  maxRetriesPerRequest: 0,
  reconnectOnError: null,
  // Every command of ours has a deadline of its own.
  commandTimeout: undefined as never,
  disconnectTimeout: DISCONNECT_TIMEOUT_MS,
} satisfies RedisOptions;

export const OWN_OPTIONS: RedisOptions = {
  ...WITHOUT_QUEUE,
  lazyConnect: true,
  keyPrefix: undefined,
  readOnly: false,
  // ioredis leaves the rejection of a subscription unhandled when the connection closes meanwhile.
  autoResubscribe: false,
  retryStrategy: reconnectDelayMs,
  sentinelRetryStrategy: reconnectDelayMs,
};

/** The options of a cluster client of our own; the options of its nodes are merged. */
export const ownClusterOptions = ({ redisOptions, ...options }: ClusterOptions): ClusterOptions => ({
  slotsRefreshInterval: SLOTS_REFRESH_MS,
  ...options,
  lazyConnect: true,
  keyPrefix: undefined,
  scaleReads: 'master',
  enableOfflineQueue: false,
  enableAutoPipelining: false,
  // A command that lost its node fails at once.
  retryDelayOnFailover: 0,
  clusterRetryStrategy: reconnectDelayMs,
  clusterNodeRetryStrategy: undefined,
  redisOptions: { connectTimeout: CONNECT_TIMEOUT_MS, ...redisOptions, ...WITHOUT_QUEUE },
});
