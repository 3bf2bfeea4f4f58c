import { Cluster, type ClusterNode, type ClusterOptions, Redis, type RedisOptions } from 'ioredis';
import { LockConfigurationError } from '../../core/lock.errors.js';
import { type Randomness } from '../../core/randomness.js';
import {
  CONNECT_TIMEOUT_MS,
  DISCONNECT_TIMEOUT_MS,
  IOREDIS_CONNECT_TIMEOUT_MS,
  SENTINEL_COMMAND_TIMEOUT_MS,
  SLOTS_REFRESH_MS,
  reconnectDelayMs,
} from '../timing.js';
import { type RedisClient, type RedisClusterOptions, databaseOf, isCluster, neverReconnect } from './redis-client.js';
import { type ServerAddress } from './server-address.js';

/**
 * Our own connections never queue a command: one that cannot be sent now, or that lost its connection, fails at once and
 * is never sent later, because we retry ourselves. They reconnect forever, soon after Redis is back, whatever the
 * application chose for its own connections.
 */
const WITHOUT_QUEUE = {
  enableOfflineQueue: false,
  enableAutoPipelining: false,
  autoResendUnfulfilledCommands: false,
  maxRetriesPerRequest: 0,
  reconnectOnError: null,
  // Every command of ours has a deadline of its own.
  commandTimeout: undefined as never,
  disconnectTimeout: DISCONNECT_TIMEOUT_MS,
} satisfies RedisOptions;

const OWN_OPTIONS: RedisOptions = {
  ...WITHOUT_QUEUE,
  lazyConnect: true,
  retryStrategy: reconnectDelayMs,
  sentinelRetryStrategy: reconnectDelayMs,
};

/** The limits that the application may choose otherwise. */
const DEFAULT_LIMITS = {
  connectTimeout: CONNECT_TIMEOUT_MS,
  sentinelCommandTimeout: SENTINEL_COMMAND_TIMEOUT_MS,
} satisfies RedisOptions;

/** The options of a cluster client of our own; the options of its nodes are merged. */
const ownClusterOptions = ({ redisOptions, ...options }: ClusterOptions): ClusterOptions => ({
  slotsRefreshInterval: SLOTS_REFRESH_MS,
  ...options,
  lazyConnect: true,
  enableOfflineQueue: false,
  enableAutoPipelining: false,
  // A command that lost its node fails at once.
  retryDelayOnFailover: 0,
  clusterRetryStrategy: reconnectDelayMs,
  clusterNodeRetryStrategy: undefined,
  redisOptions: { connectTimeout: CONNECT_TIMEOUT_MS, ...redisOptions, ...WITHOUT_QUEUE },
});

/**
 * Opens a connection of our own.
 * @throws LockConfigurationError for a URL that cannot be read
 */
export function openClient(connection: string | RedisOptions | RedisClusterOptions): RedisClient {
  try {
    return open(connection);
  } catch (error) {
    // The error of the URL parser contains the whole URL, and with it the password.
    const text = `Expected \`connection\` to be readable by ioredis: ${(error as Error).message}.`;
    throw new LockConfigurationError(`${text} Percent-encode special characters of user and password.`);
  }
}

function open(connection: string | RedisOptions | RedisClusterOptions): RedisClient {
  if (typeof connection === 'string') return new Redis(connection, { ...DEFAULT_LIMITS, ...OWN_OPTIONS });
  if (!('cluster' in connection)) {
    // `null` and 0 mean no limit: a host or a sentinel that stays silent would be waited for indefinitely.
    const connectTimeout = connection.connectTimeout || CONNECT_TIMEOUT_MS;
    const sentinelCommandTimeout = connection.sentinelCommandTimeout ?? SENTINEL_COMMAND_TIMEOUT_MS;
    return new Redis({ ...connection, ...OWN_OPTIONS, connectTimeout, sentinelCommandTimeout });
  }
  const { cluster, ...options } = connection;
  return rememberNodes(cluster, (seeds) => new Cluster(seeds, ownClusterOptions(options)));
}

/** Opens a cluster client that, when it has lost all nodes, tries those that it knew, and not only the given ones. */
function rememberNodes(given: readonly ClusterNode[], openWith: (seeds: ClusterNode[]) => Cluster): Cluster {
  // ioredis reads the list each time it connects.
  const seeds = [...given];
  const cluster = openWith(seeds);
  cluster.on('refresh', () => seeds.splice(0, Infinity, ...nodesKnownTo(cluster), ...given));
  return cluster;
}

const nodesKnownTo = (cluster: Cluster): ClusterNode[] =>
  cluster.nodes().map(({ options: { host, port } }) => ({ host: host!, port: port! }));

/** Opens one more connection of our own to the same place. */
export function duplicateClient(client: RedisClient): RedisClient {
  if (!isCluster(client)) return duplicateRedis(client);
  const { startupNodes = [] } = client as unknown as { readonly startupNodes?: readonly ClusterNode[] };
  // The nodes that the application named may be the ones that do not answer.
  const nodes = [...nodesKnownTo(client), ...startupNodes];
  const options = { ...ownClusterOptions(client.options), lazyConnect: false };
  return rememberNodes(nodes, (seeds) => client.duplicate(seeds, options));
}

/**
 * The same for a client that is no cluster: with its database, and with the credentials that it has when a connection
 * begins. It never resubscribes by itself: ioredis leaves that rejection unhandled when the connection closes meanwhile.
 */
export function duplicateRedis(client: Redis): Redis {
  const { connectTimeout, sentinelCommandTimeout } = client.options;
  const isChosen = connectTimeout && connectTimeout !== IOREDIS_CONNECT_TIMEOUT_MS;
  const copy = client.duplicate({
    ...OWN_OPTIONS,
    connectTimeout: isChosen ? connectTimeout : CONNECT_TIMEOUT_MS,
    sentinelCommandTimeout: sentinelCommandTimeout ?? SENTINEL_COMMAND_TIMEOUT_MS,
    db: databaseOf(client),
    lazyConnect: false,
    autoResubscribe: false,
  });
  copy.options.retryStrategy = (times) => {
    const { username, password } = client.options;
    Object.assign(copy.options, { username, password });
    return reconnectDelayMs(times);
  };
  return copy;
}

/**
 * Opens a connection of our own to subscribe by; null while a cluster knows no node. A node of a cluster hears what is
 * published at any of them. When that node is gone, the connection ends, and another one has to be chosen.
 */
export function openSubscriber(client: RedisClient, random: Randomness): Redis | null {
  if (!isCluster(client)) return duplicateRedis(client);
  const nodes = client.nodes('all');
  const node = nodes[Math.floor(random.fraction() * nodes.length)];
  if (!node) return null;
  const subscriber = duplicateNode(node);
  // A node that left the cluster may stay up, but no messages of the cluster reach it.
  const leaveIfForeign = (): void => {
    if (!hasNode(client, subscriber)) subscriber.disconnect(false);
  };
  client.on('refresh', leaveIfForeign);
  subscriber.once('end', () => client.off('refresh', leaveIfForeign));
  return subscriber;
}

/** Whether the cluster still has the node that this connection leads to. */
const hasNode = (cluster: Cluster, { options }: Redis): boolean =>
  cluster.nodes('all').some((node) => node.options.host === options.host && node.options.port === options.port);

/** Opens one more connection to a node of a cluster; it ends when that node is gone. */
const duplicateNode = (node: Redis, more: RedisOptions = {}): Redis =>
  node.duplicate({
    ...OWN_OPTIONS,
    lazyConnect: false,
    autoResubscribe: false,
    readOnly: false,
    retryStrategy: neverReconnect,
    ...more,
  });

/**
 * The same to the node at an address that the cluster client need not know; it uses the key prefix of the cluster client.
 * Null while that client knows no node.
 */
export function openNode(cluster: Cluster, { host, port }: ServerAddress): Redis | null {
  const nodes = cluster.nodes('all');
  const node = nodes.find(({ options }) => options.host === host && options.port === port) ?? nodes[0];
  return node ? duplicateNode(node, { host, port, keyPrefix: cluster.options.keyPrefix }) : null;
}

/** Opens a connection to a sentinel, with the options that ioredis takes for the sentinels of such a client. */
export const openSentinel = (sentinel: ServerAddress, options: RedisOptions): Redis =>
  new Redis({
    ...sentinel,
    ...WITHOUT_QUEUE,
    protocol: 2,
    family: options.family,
    username: options.sentinelUsername,
    password: options.sentinelPassword,
    tls: options.sentinelTLS,
    connectTimeout: options.connectTimeout ?? CONNECT_TIMEOUT_MS,
    commandTimeout: options.sentinelCommandTimeout ?? SENTINEL_COMMAND_TIMEOUT_MS,
    retryStrategy: options.retryStrategy,
    enableReadyCheck: false,
    autoResubscribe: false,
  });
