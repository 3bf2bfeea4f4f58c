import type { Cluster, ClusterNode, ClusterOptions, Redis, RedisOptions } from 'ioredis';
import { LockConfigurationError } from '../../../core/lock.errors.js';
import {
  CONNECT_TIMEOUT_MS,
  IOREDIS_CONNECT_TIMEOUT_MS,
  SENTINEL_COMMAND_TIMEOUT_MS,
  reconnectDelayMs,
} from '../../timing.js';
import { type ClientParts, type Clients, checkDuplicate, warnOfKeyPrefix } from '../client-library.js';
import { loadIoredis } from '../optional-peers.cjs';
import { type RedisClient } from '../redis-client.js';
import { withoutUrl } from '../plain-options.js';
import { type RedisAddress, type RedisClusterOptions } from '../redis-connection.js';
import { IoredisCluster } from './ioredis-cluster.js';
import { IoredisConnection } from './ioredis-connection.js';
import { connectorTo } from './sentinel-group.js';
import { type Ioredis, OWN_OPTIONS, ownClusterOptions } from './ioredis-options.js';

type Classes = NonNullable<ReturnType<typeof loadIoredis>>;

const ignore = (): void => undefined;

/** The clients of one store, behind which ioredis works. */
export class IoredisClients implements Clients {
  readonly #clients = new WeakMap<Ioredis, RedisClient>();

  /** `load`: the classes that open a connection. */
  constructor(
    readonly parts: ClientParts,
    private readonly load = loadIoredis,
  ) {}

  /** Returns the client of a connection of ioredis: always the same one. */
  of(client: Redis): IoredisConnection;
  of(client: object): RedisClient;
  of(given: object): RedisClient {
    const client = given as Ioredis;
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
  ofOwn(client: Redis, source = client): IoredisConnection {
    client.on('error', ignore).on('connect', () => reportGreeting(client));
    return new IoredisConnection(client, this, source);
  }

  copyOf(given: object): RedisClient {
    const client = given as Ioredis;
    warnOfKeyPrefix(client.options, this.parts);
    return client.isCluster ? this.duplicateCluster(client as Cluster) : this.duplicateOf(client as Redis);
  }

  /** Opens a duplicate of a client; its connections begin with the credentials that the client has at that time. */
  duplicateOf(source: Redis, changes: RedisOptions = {}): IoredisConnection {
    const { connectTimeout, sentinelCommandTimeout, sentinels, Connector } = source.options;
    const isChosen = connectTimeout && connectTimeout !== IOREDIS_CONNECT_TIMEOUT_MS;
    const client = source.duplicate({
      ...OWN_OPTIONS,
      connectTimeout: isChosen ? connectTimeout : CONNECT_TIMEOUT_MS,
      sentinelCommandTimeout: sentinelCommandTimeout ?? SENTINEL_COMMAND_TIMEOUT_MS,
      ...(sentinels && { Connector: Connector ?? connectorTo(() => own.sentinels, this.parts.clock) }),
      ...changes,
    });
    checkDuplicate(client, 'evalsha');
    client.options.retryStrategy = (times) => {
      const { username, password } = source.options;
      Object.assign(client.options, { username, password });
      return reconnectDelayMs(times);
    };
    const own = this.ofOwn(client, source);
    return own;
  }

  /**
   * Opens a connection of our own.
   * @throws LockConfigurationError for a URL that cannot be read, and for options that ioredis refuses
   */
  open(connection: RedisAddress): RedisClient {
    const classes = this.load()!;
    try {
      return this.#open(connection, classes);
    } catch (error) {
      if (error instanceof LockConfigurationError) throw error;
      throw new LockConfigurationError(
        `Expected \`connection\` to be options of ioredis, which refuses them: ${(error as Error).message}.`,
      );
    }
  }

  #open(connection: RedisAddress, { Redis, Cluster }: Classes): RedisClient {
    const { cluster, ...given } = withoutUrl(connection) as Partial<RedisClusterOptions>;
    if (cluster) {
      const own = ownClusterOptions(given as ClusterOptions);
      return this.#ofOwnCluster(rememberNodes(cluster, (seeds) => new Cluster(seeds, own)));
    }
    const options = given as RedisOptions;
    // `null` and 0 mean no limit: a host or a sentinel that stays silent would be waited for indefinitely.
    const connectTimeout = options.connectTimeout || CONNECT_TIMEOUT_MS;
    const sentinelCommandTimeout = options.sentinelCommandTimeout ?? SENTINEL_COMMAND_TIMEOUT_MS;
    const settings = { ...options, ...OWN_OPTIONS, connectTimeout, sentinelCommandTimeout };
    if (!options.sentinels) return this.ofOwn(new Redis(settings));
    const Connector = connectorTo(() => own.sentinels, this.parts.clock);
    const own: IoredisConnection = this.ofOwn(new Redis({ Connector, ...settings }));
    return own;
  }

  /** Opens one more client of the same cluster. */
  duplicateCluster(client: Cluster, changes: ClusterOptions = {}): IoredisCluster {
    const { startupNodes = [] } = client as unknown as { readonly startupNodes?: readonly ClusterNode[] };
    // The nodes that the application named may be the ones that do not answer.
    const nodes = [...nodesKnownTo(client), ...startupNodes];
    const options: ClusterOptions = { ...ownClusterOptions(client.options), ...changes };
    const duplicate = (seeds: ClusterNode[]): Cluster => checkDuplicate(client.duplicate(seeds, options), 'evalsha');
    return this.#ofOwnCluster(rememberNodes(nodes, duplicate));
  }

  #ofOwnCluster(client: Cluster): IoredisCluster {
    return new IoredisCluster(client.on('error', ignore), this);
  }
}

/**
 * A server that refuses a connection says why and closes it. ioredis takes that line for the answer to a command of its own, and
 * drops it; here it becomes the error of the connection.
 */
function reportGreeting(client: Redis): void {
  // What stands in for ioredis in a test may have no real socket.
  const stream = client.stream as Redis['stream'] | undefined;
  let received = '';
  const onData = (data: Buffer): void => {
    if (received !== '') stream!.off('data', onData);
    received += received === '' ? String(data) : '\n';
  };
  stream?.on('data', onData).once('close', () => {
    const [, text] = /^-(.*)\r\n$/.exec(received) ?? [];
    if (text !== undefined) client.emit('error', Object.assign(new Error(text), { name: 'ReplyError' }));
  });
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
