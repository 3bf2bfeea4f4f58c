import { type ClientParts, type Clients, checkDuplicate, warnOfKeyPrefix } from '../client-library.js';
import { type SentinelGroup as SentinelAddress, readPlainOptions } from '../plain-options.js';
import { type RedisClient } from '../redis-client.js';
import { type RedisAddress, type RedisNatMap } from '../redis-connection.js';
import { type ServerAddress, addressText, reachedBy } from '../server-address.js';
import { SLOTS_REFRESH_MS } from '../../timing.js';
import { addressOf, nodeOptionsOf, optionsOf } from './given-options.js';
import { connectTimeoutOf, optionsFrom, ownOptions } from './node-redis-options.js';
import { type NodeRedis, type NodeRedisOptions } from './node-redis-types.js';
import { OwnCluster } from './own-cluster.js';
import { type ConnectionPlan, OwnConnection } from './own-connection.js';
import { planBySentinels } from './sentinels.js';

/** What kind of client an application has. */
export type Kind = 'single' | 'cluster' | 'sentinels';

/** How a group of sentinels and its servers are reached. */
interface Group {
  readonly name: string;
  readonly sentinels: readonly ServerAddress[];
  readonly ofSentinels: NodeRedisOptions;
  readonly ofServers: NodeRedisOptions;
}

/** The clients of one store, behind which node-redis works. */
export class NodeRedisClients implements Clients {
  constructor(
    private readonly parts: ClientParts,
    private readonly kindOf: (client: object) => Kind,
    private readonly loadModel: () => NodeRedis,
  ) {}

  open(connection: RedisAddress): RedisClient {
    const plain = readPlainOptions(connection, 'node-redis');
    const [options, { at, natMap }] = [optionsFrom(plain), plain];
    if ('nodes' in at) return this.#openCluster(at.nodes, options, natMap, plain.slotsRefreshInterval);
    if ('sentinels' in at) return this.#openBySentinels(groupOf(at, options), natMap);
    return new OwnConnection(this.#planOf(options, at), this.parts);
  }

  /** The clients of clusters and by sentinels queue commands and send them again, so only their options are used. */
  copyOf(client: object): RedisClient {
    const kind = this.kindOf(client);
    warnOfKeyPrefix(kind === 'single' ? (client as NodeRedis).options : optionsOf(client), this.parts);
    if (kind === 'single') return new OwnConnection(this.#planOfClient(client as NodeRedis), this.parts);
    if (kind === 'cluster') {
      const options = optionsOf(client);
      const seeds = options.rootNodes.map((node) => addressOf(node, 6379));
      return this.#openCluster(seeds, nodeOptionsOf(options, options.defaults), options.nodeAddressMap);
    }
    const options = optionsOf(client);
    const group = {
      name: options.name,
      sentinels: options.sentinelRootNodes.map((node) => addressOf(node, 26_379)),
      ofSentinels: options.sentinelClientOptions ?? {},
      ofServers: nodeOptionsOf(options, options.nodeClientOptions),
    };
    return this.#openBySentinels(group, options.nodeAddressMap);
  }

  #openCluster(
    seeds: readonly ServerAddress[],
    options: NodeRedisOptions,
    natMap: RedisNatMap | undefined,
    refreshMs = SLOTS_REFRESH_MS,
  ): OwnCluster {
    const ofNodes = { ...options, database: 0 };
    const plan = {
      seeds,
      refreshMs,
      node: (at: ServerAddress) => this.#planOf(ofNodes, at),
      reachedBy: (address: ServerAddress) => reachedBy(address, natMap),
    };
    return new OwnCluster(plan, this.parts);
  }

  #openBySentinels({ name, sentinels, ofSentinels, ofServers }: Group, natMap: RedisNatMap | undefined): OwnConnection {
    // In RESP2, a connection that subscribes answers no questions.
    const options = { ...ofSentinels, RESP: 3, database: 0 };
    const plan = {
      name,
      sentinels,
      sentinel: (at: ServerAddress) => this.#planOf(options, at),
      master: (at: ServerAddress) => this.#planOf(ofServers, at),
      reachedBy: (address: ServerAddress) => reachedBy(address, natMap),
    };
    return new OwnConnection(planBySentinels(plan, this.parts), this.parts);
  }

  /** How the server of a client is reached: with a duplicate of it, in the same database. */
  #planOfClient(client: NodeRedis, { database }: NodeRedisOptions = client.options ?? {}): ConnectionPlan {
    const options = { ...client.options, database };
    const { path, host, port = 6379 } = options.socket ?? {};
    const at = path === undefined ? { host: host || 'localhost', port } : { path };
    const model = checkDuplicate(client.duplicate(ownOptions(options, at)), 'sendCommand');
    return { ...this.#planOf(options, at, model), again: () => this.#planOfClient(client, { database }) };
  }

  /** How a server is reached with these options, by duplicates of the model. */
  #planOf(
    options: NodeRedisOptions,
    at: ServerAddress | { readonly path: string },
    model = this.loadModel(),
  ): ConnectionPlan {
    const place = 'path' in at ? { address: at.path, peer: null } : { address: addressText(at), peer: at };
    const make = (cut: AbortSignal): NodeRedis => model.duplicate(ownOptions(options, at, cut));
    return {
      address: place.address,
      database: options.database ?? 0,
      endsForGood: false,
      connectTimeout: connectTimeoutOf(options),
      target: { make, peer: place.peer },
    };
  }
}

function groupOf({ name, sentinels, username, password, tls }: SentinelAddress, ofServers: NodeRedisOptions): Group {
  const { connectTimeout, family } = ofServers.socket ?? {};
  const socket = { ...tls, ...(tls && { tls: true }), connectTimeout, ...(family !== undefined && { family }) };
  return { name, sentinels, ofServers, ofSentinels: { username, password, socket } };
}
