import { Cluster, type ClusterNode, type ClusterOptions, Redis, type RedisOptions } from 'ioredis';
import { LockConfigurationError } from '../../core/lock.errors.js';
import { type ServerAddress } from './server-address.js';

/** Any ioredis client, of the caller's own copy of ioredis. */
export type RedisClient = Redis | Cluster;

/** A Redis Cluster by some of its nodes, with the options of ioredis' `Cluster`. */
export interface RedisClusterOptions extends ClusterOptions {
  readonly cluster: readonly ClusterNode[];
}

/**
 * How to reach Redis: a URL, ioredis options (with `sentinels` and `name` for Sentinel), the nodes of a cluster, or a
 * client, which is used and never closed.
 */
export type RedisConnection = string | RedisOptions | RedisClusterOptions | Redis | Cluster;

/** Recognised by what it can do: `instanceof` fails when the app and this package load two copies of ioredis. */
export const isRedisClient = (value: unknown): value is RedisClient =>
  typeof (value as RedisClient | null)?.evalsha === 'function' &&
  typeof (value as RedisClient).duplicate === 'function';

export const isCluster = (client: RedisClient): client is Cluster => client.isCluster;

/**
 * Our own connections keep no command: what cannot be sent now, or lost its connection, is given back at once and never
 * sent later, since we ask again. They never give up, and are back soon after Redis is, whatever the application chose
 * for its own.
 */
const KEEPING_NOTHING = {
  enableOfflineQueue: false,
  enableAutoPipelining: false,
  autoResendUnfulfilledCommands: false,
  maxRetriesPerRequest: 0,
  reconnectOnError: null,
  // Every command of ours has a deadline of its own.
  commandTimeout: undefined as never,
  disconnectTimeout: 100,
} satisfies RedisOptions;

const OWN_OPTIONS: RedisOptions = {
  ...KEEPING_NOTHING,
  lazyConnect: true,
  retryStrategy: reconnectDelayMs,
  sentinelRetryStrategy: reconnectDelayMs,
};

/** What the application may choose otherwise: ioredis would wait 10 s for a host that takes no connection. */
const OWN_DEFAULTS = { connectTimeout: 3_000, sentinelCommandTimeout: 1_000 } satisfies RedisOptions;

/**
 * The options of a cluster that is ours; those of its nodes are merged. It looks now and then which nodes there are: ioredis
 * would only do so when a command meets a node that is gone, and we listen to one without any command.
 */
const ownClusterOptions = ({ redisOptions, ...options }: ClusterOptions): ClusterOptions => ({
  slotsRefreshInterval: 30_000,
  ...options,
  lazyConnect: true,
  enableOfflineQueue: false,
  enableAutoPipelining: false,
  // A command that lost its node is given back.
  retryDelayOnFailover: 0,
  clusterRetryStrategy: reconnectDelayMs,
  clusterNodeRetryStrategy: undefined,
  redisOptions: { connectTimeout: OWN_DEFAULTS.connectTimeout, ...redisOptions, ...KEEPING_NOTHING },
});

/** How long to wait before the next connection; `times` have failed. */
export function reconnectDelayMs(times: number): number {
  return Math.min(50 * times, 1_000);
}

/**
 * Opens a connection that is ours to close.
 * @throws LockConfigurationError for a URL that cannot be read
 */
export function openClient(connection: string | RedisOptions | RedisClusterOptions): RedisClient {
  try {
    return open(connection);
  } catch (error) {
    // What the URL parser throws has all of the URL in it, and with it the password.
    const text = `Expected \`connection\` to be readable by ioredis: ${(error as Error).message}.`;
    throw new LockConfigurationError(`${text} Percent-encode special characters of user and password.`);
  }
}

function open(connection: string | RedisOptions | RedisClusterOptions): RedisClient {
  if (typeof connection === 'string') return new Redis(connection, { ...OWN_DEFAULTS, ...OWN_OPTIONS });
  if (!('cluster' in connection)) {
    // Without them a host or a sentinel that says nothing would be waited for, for ever.
    const connectTimeout = connection.connectTimeout || OWN_DEFAULTS.connectTimeout;
    const sentinelCommandTimeout = connection.sentinelCommandTimeout ?? OWN_DEFAULTS.sentinelCommandTimeout;
    return new Redis({ ...connection, ...OWN_OPTIONS, connectTimeout, sentinelCommandTimeout });
  }
  const { cluster, ...options } = connection;
  return rememberNodes(cluster, (seeds) => new Cluster(seeds, ownClusterOptions(options)));
}

/** When it has lost all its nodes it looks for any that it knew, and not only for those that it was given. */
function rememberNodes(given: readonly ClusterNode[], openWith: (seeds: ClusterNode[]) => Cluster): Cluster {
  // ioredis reads the list each time it connects.
  const seeds = [...given];
  const cluster = openWith(seeds);
  cluster.on('refresh', () => seeds.splice(0, Infinity, ...nodesKnownTo(cluster), ...given));
  return cluster;
}

const nodesKnownTo = (cluster: Cluster): ClusterNode[] =>
  cluster.nodes().map(({ options: { host, port } }) => ({ host: host!, port: port! }));

/** One more connection to the same place, ours to close. */
export function duplicateClient(client: RedisClient): RedisClient {
  if (!isCluster(client)) return duplicateRedis(client);
  const { startupNodes = [] } = client as unknown as { readonly startupNodes?: readonly ClusterNode[] };
  // Those of the application may be the ones that do not answer.
  const nodes = [...nodesKnownTo(client), ...startupNodes];
  const options = { ...ownClusterOptions(client.options), lazyConnect: false };
  return rememberNodes(nodes, (seeds) => client.duplicate(seeds, options));
}

/**
 * The same for what is no cluster: with its database, and with the credentials that it has by the time of each connection. It
 * does not subscribe again by itself: ioredis leaves the rejection of that unhandled when the connection is closed meanwhile.
 */
export function duplicateRedis(client: Redis): Redis {
  const { connectTimeout, sentinelCommandTimeout } = client.options;
  const copy = client.duplicate({
    ...OWN_OPTIONS,
    // 10 s is the default of ioredis, which nobody chose.
    connectTimeout: !connectTimeout || connectTimeout === 10_000 ? OWN_DEFAULTS.connectTimeout : connectTimeout,
    sentinelCommandTimeout: sentinelCommandTimeout ?? OWN_DEFAULTS.sentinelCommandTimeout,
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

/** The database that a client has selected; while it is not connected, the one that it will select again. */
export function databaseOf(client: Redis): number {
  const { prevCondition } = client as unknown as { readonly prevCondition?: Redis['condition'] };
  return (prevCondition ?? client.condition)?.select ?? client.options.db ?? 0;
}

/**
 * A connection to subscribe by, ours to close; null while a cluster knows no node. A node of a cluster hears what is
 * published at any of them. When that node is gone, the connection ends, for another one to be chosen.
 */
export function openSubscriber(client: RedisClient): Redis | null {
  if (!isCluster(client)) return duplicateRedis(client);
  const nodes = client.nodes('all');
  const node = nodes[Math.floor(Math.random() * nodes.length)];
  if (!node) return null;
  const subscriber = duplicateNode(node);
  // A node that left the cluster may live on, and hears nothing there.
  const leaveIfForeign = (): void => {
    if (!hasNode(client, subscriber)) subscriber.disconnect(false);
  };
  client.on('refresh', leaveIfForeign);
  subscriber.once('end', () => client.off('refresh', leaveIfForeign));
  return subscriber;
}

const never = (): null => null;

/** One more connection to a node of a cluster; it ends when that node is gone. */
export const duplicateNode = (node: Redis, more: RedisOptions = {}): Redis =>
  node.duplicate({
    ...OWN_OPTIONS,
    lazyConnect: false,
    autoResubscribe: false,
    readOnly: false,
    retryStrategy: never,
    ...more,
  });

/**
 * The same to the node at an address, which the cluster's client need not know; it writes the keys that the cluster would.
 * Null while the client knows no node.
 */
export function openNode(cluster: Cluster, { host, port }: ServerAddress): Redis | null {
  const nodes = cluster.nodes('all');
  const node = nodes.find(({ options }) => options.host === host && options.port === port) ?? nodes[0];
  return node ? duplicateNode(node, { host, port, keyPrefix: cluster.options.keyPrefix }) : null;
}

/** A connection to a sentinel of a client with these options, by the options that ioredis takes for sentinels. */
export const openSentinel = (sentinel: ServerAddress, options: RedisOptions): Redis =>
  new Redis({
    ...sentinel,
    ...KEEPING_NOTHING,
    protocol: 2,
    family: options.family,
    username: options.sentinelUsername,
    password: options.sentinelPassword,
    tls: options.sentinelTLS,
    connectTimeout: options.connectTimeout ?? OWN_DEFAULTS.connectTimeout,
    commandTimeout: options.sentinelCommandTimeout ?? OWN_DEFAULTS.sentinelCommandTimeout,
    retryStrategy: options.retryStrategy,
    enableReadyCheck: false,
    autoResubscribe: false,
  });

/** Whether a connection of ours is not to be opened again once it has ended. */
export const endsForGood = (client: RedisClient): boolean =>
  !isCluster(client) && client.options.retryStrategy === never;

/** Whether a command is sent at once: else ioredis would queue it, and send it at any time. */
export const isWritable = (client: RedisClient): boolean =>
  client.status === 'ready' && (isCluster(client) || client.stream.writable);

/** Whether the cluster still has the node that this connection is to. */
const hasNode = (cluster: Cluster, { options }: Redis): boolean =>
  cluster.nodes('all').some((node) => node.options.host === options.host && node.options.port === options.port);

/** Refuses a client that cannot run commands, before the first lock fails on it. */
export function checkClient(client: RedisClient): void {
  if ((client as { mode?: string }).mode === 'subscriber') {
    throw new LockConfigurationError(
      'Expected `connection` to be a client that runs commands, got one in subscriber mode; give the module another client.',
    );
  }
}

/** Where commands go, for people: never a password. */
export function addressOf({ options }: RedisClient): string {
  const { host, port, path, sentinels, name } = options as RedisOptions;
  if (!sentinels) return path ?? `${host}:${port}`;
  return `sentinel ${name} of ${sentinels[0]?.host}:${sentinels[0]?.port ?? 26379}`;
}

/** Ends a connection that is ours; resolves when its sockets are gone, or soon. */
export async function closeClient(client: RedisClient): Promise<void> {
  if (client.status === 'end') return;
  if (client.status === 'wait') return client.disconnect(false);
  // A cluster ends before the connections to its nodes do.
  const nodes = isCluster(client) ? client.nodes().filter(({ status }) => status !== 'wait' && status !== 'end') : [];
  const ends = [client, ...nodes].map((one) => new Promise<void>((resolve) => one.once('end', resolve)));
  const soon = new Promise<void>((resolve) => void setTimeout(resolve, 500).unref());
  client.disconnect(false);
  await Promise.race([Promise.all(ends), soon]);
}
