import { Cluster, type ClusterNode, type ClusterOptions, Redis, type RedisOptions } from 'ioredis';
import { LockConfigurationError } from '../../../core/lock.errors.js';
import { CONNECT_TIMEOUT_MS, SENTINEL_COMMAND_TIMEOUT_MS } from '../../timing.js';
import { type RedisClient } from '../redis-client.js';
import { type ClientParts } from './ioredis-base.js';
import { IoredisCluster } from './ioredis-cluster.js';
import { IoredisConnection } from './ioredis-connection.js';
import {
  DEFAULT_LIMITS,
  type Ioredis,
  OWN_OPTIONS,
  type RedisClusterOptions,
  ownClusterOptions,
} from './ioredis-options.js';

const ignore = (): void => undefined;

/** The clients of one store, behind which ioredis works. */
export class IoredisClients {
  readonly #clients = new WeakMap<Ioredis, RedisClient>();

  constructor(readonly parts: ClientParts) {}

  /** Returns the client of a connection of ioredis: always the same one. */
  of(client: Redis): IoredisConnection;
  of(client: Ioredis): RedisClient;
  of(client: Ioredis): RedisClient {
    let known = this.#clients.get(client);
    if (!known) {
      known = client.isCluster
        ? new IoredisCluster(client as Cluster, this)
        : new IoredisConnection(client as Redis, this);
      this.#clients.set(client, known);
    }
    return known;
  }

  /** Returns the client of a connection that we have opened. Without a listener for errors, ioredis writes to the console. */
  ofOwn(client: Redis): IoredisConnection {
    return this.of(client.on('error', ignore));
  }

  ofOwnCluster(client: Cluster): IoredisCluster {
    return this.of(client.on('error', ignore) as Ioredis) as IoredisCluster;
  }

  /**
   * Opens a connection of our own.
   * @throws LockConfigurationError for a URL that cannot be read
   */
  open(connection: string | RedisOptions | RedisClusterOptions): RedisClient {
    try {
      return this.#open(connection);
    } catch (error) {
      // The error of the URL parser contains the whole URL, and with it the password.
      const text = `Expected \`connection\` to be readable by ioredis: ${(error as Error).message}.`;
      throw new LockConfigurationError(`${text} Percent-encode special characters of user and password.`);
    }
  }

  #open(connection: string | RedisOptions | RedisClusterOptions): RedisClient {
    if (typeof connection === 'string') return this.ofOwn(new Redis(connection, { ...DEFAULT_LIMITS, ...OWN_OPTIONS }));
    if ('cluster' in connection) return this.#openCluster(connection);
    // `null` and 0 mean no limit: a host or a sentinel that stays silent would be waited for indefinitely.
    const connectTimeout = connection.connectTimeout || CONNECT_TIMEOUT_MS;
    const sentinelCommandTimeout = connection.sentinelCommandTimeout ?? SENTINEL_COMMAND_TIMEOUT_MS;
    return this.ofOwn(new Redis({ ...connection, ...OWN_OPTIONS, connectTimeout, sentinelCommandTimeout }));
  }

  #openCluster({ cluster, ...options }: RedisClusterOptions): RedisClient {
    return this.ofOwnCluster(rememberNodes(cluster, (seeds) => new Cluster(seeds, ownClusterOptions(options))));
  }

  /** Opens one more connection of our own to the same cluster. */
  duplicateCluster(client: Cluster): IoredisCluster {
    const { startupNodes = [] } = client as unknown as { readonly startupNodes?: readonly ClusterNode[] };
    // The nodes that the application named may be the ones that do not answer.
    const nodes = [...nodesKnownTo(client), ...startupNodes];
    const options: ClusterOptions = { ...ownClusterOptions(client.options), lazyConnect: false };
    return this.ofOwnCluster(rememberNodes(nodes, (seeds) => client.duplicate(seeds, options)));
  }
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
