import { setDeadline } from '../../../core/clock.js';
import { LockConfigurationError } from '../../../core/lock.errors.js';
import {
  checkDuplicate,
  type ClientLibrary,
  type ClientParts,
  type Clients,
  hasMethod,
  type ServerPlace,
  warnOfKeyPrefix,
} from '../client-library.js';
import { OwnCluster } from './cluster.js';
import { type ConnectionPlan, OwnConnection, type Target } from './connection.js';
import {
  addressOf,
  connectTimeoutOf,
  type CreateClient,
  nodeOptionsOf,
  type NodeRedis,
  type NodeRedisOptions,
  optionsFrom,
  optionsOf,
  ownOptions,
} from './options.js';
import { loadNodeRedis } from '../optional-peers.cjs';
import { readPlainOptions, type SentinelGroup as SentinelAddress } from '../plain-options.js';
import { type RedisClient } from '../redis-client.js';
import { type RedisAddress, type RedisNatMap } from '../redis-connection.js';
import { type SentinelConnection, Sentinels } from '../sentinel-watch.js';
import { addressText, reachedBy, type ServerAddress } from '../server-address.js';
import { MAX_SENTINEL_RETRIES, SENTINEL_COMMAND_TIMEOUT_MS, SLOTS_REFRESH_MS } from '../../timing.js';

/** How the master of some sentinels is reached. */
interface SentinelPlan {
  readonly name: string;
  readonly sentinels: readonly ServerAddress[];
  readonly sentinel: (at: ServerAddress) => ConnectionPlan;
  readonly master: (at: ServerAddress) => ConnectionPlan;
  readonly reachedBy: (announced: ServerAddress) => ServerAddress;
}

/** Turns it into the plan of a connection, which asks for the master each time that it is opened. */
function planBySentinels(plan: SentinelPlan, parts: ClientParts): ConnectionPlan {
  const group = {
    ...plan,
    isOpenToOthers: true,
    open: (at: ServerAddress, isNamed: boolean) => openSentinel(plan.sentinel(at), isNamed, parts),
  };
  const sentinels = new Sentinels(group, parts);
  const [first] = plan.sentinels;
  const targetAt = (at: ServerAddress): Target => ({
    ...(plan.master(at).target as Target),
    onReplica: () => sentinels.refute(at),
  });
  return {
    ...plan.master(first!),
    address: `sentinel ${plan.name} of ${addressText(first!)}`,
    target: async (signal) => targetAt(await sentinels.master(signal)),
    watchMaster: (onMaster) => sentinels.watch(onMaster),
  };
}

function openSentinel(plan: ConnectionPlan, isNamed: boolean, parts: ClientParts): SentinelConnection {
  const sentinel = OwnConnection.opened({ ...plan, ...(!isNamed && { maxFailures: MAX_SENTINEL_RETRIES }) }, parts);
  const inTime = <T>(answer: Promise<T>): Promise<T> => withDeadline(answer, parts);
  return {
    get isReady() {
      return sentinel.isWritable;
    },
    onError: (listener) => void sentinel.on('error', listener),
    onReady: (listener) => void sentinel.on('ready', listener),
    onClosed: (listener) => void sentinel.on('closed', listener),
    onEnded: (listener) => void sentinel.once('ended', listener),
    onMessage: (listener) => void sentinel.on('message', listener),
    command: (...words) => inTime(sentinel.send(words)),
    subscribe: (...channels) => inTime(Promise.all(channels.map((channel) => sentinel.subscribe(channel)))),
    ping: () => inTime(sentinel.send(['ping'])),
    reconnect: () => sentinel.reconnect(),
    close: () => sentinel.close(),
  };
}

async function withDeadline<T>(answer: Promise<T>, { clock }: ClientParts): Promise<T> {
  let cancel = (): void => undefined;
  const late = new Promise<never>((_resolve, reject) => {
    const fail = (): void => reject(new Error('the sentinel does not answer'));
    cancel = setDeadline(clock, fail, SENTINEL_COMMAND_TIMEOUT_MS);
  });
  return Promise.race([answer, late]).finally(() => cancel());
}

/** What kind of client an application has. */
type Kind = 'single' | 'cluster' | 'sentinels';

/** How a group of sentinels and its servers are reached. */
interface Group {
  readonly name: string;
  readonly sentinels: readonly ServerAddress[];
  readonly ofSentinels: NodeRedisOptions;
  readonly ofServers: NodeRedisOptions;
}

/** The clients of one store, behind which node-redis works. */
class NodeRedisClients implements Clients {
  constructor(private readonly parts: ClientParts) {}

  open(connection: RedisAddress): RedisClient {
    const plain = readPlainOptions(connection, 'node-redis');
    const [options, { at, natMap }] = [optionsFrom(plain), plain];
    if ('nodes' in at) return this.#openCluster(at.nodes, options, natMap, plain.slotsRefreshInterval);
    if ('sentinels' in at) return this.#openBySentinels(groupOf(at, options), natMap);
    return new OwnConnection(this.#planOf(options, at), this.parts);
  }

  /** The clients of clusters and by sentinels queue commands and send them again, so only their options are used. */
  copyOf(client: object): RedisClient {
    const kind = kindOf(client);
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
    model = loadModel(),
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

/** node-redis 5 and 6. */
export const nodeRedisLibrary: ClientLibrary = {
  name: 'node-redis',
  isClient: (value): value is object => hasMethod(value, 'evalSha'),
  methods: ['sendCommand', 'duplicate', 'connect', 'destroy', 'on', 'off'],
  isCluster: (client) => kindOf(client) === 'cluster',
  placeOf,
  // redis 4 has no sentinels.
  isInstalled: () => loadNodeRedis()?.createSentinel !== undefined,
  clientsOf: (parts) => new NodeRedisClients(parts),
};

let loaded: NodeRedis | undefined;

/**
 * A client that is never connected; those of our own connections are its duplicates. `createClient` builds a class with all commands of
 * Redis whenever its options change, which takes a process tens of milliseconds: too long for each try to connect.
 */
function loadModel(): NodeRedis {
  if (loaded) return loaded;
  const redis = loadNodeRedis();
  if (redis) return (loaded = (redis.createClient as unknown as CreateClient)({ maintNotifications: 'disabled' }));
  throw new LockConfigurationError('Expected the package `redis` to be installed. Install it: npm install redis.');
}

function kindOf(client: object): Kind {
  if (hasMethod(client, 'getRandomNode')) return 'cluster';
  return hasMethod(client, 'getSentinelNode') ? 'sentinels' : 'single';
}

function placeOf(client: object): ServerPlace {
  if (kindOf(client) === 'sentinels') {
    const { name, sentinelRootNodes } = optionsOf(client);
    return { name, sentinels: sentinelRootNodes.map((node) => addressOf(node, 26_379)) };
  }
  const { host, port, path } = (client as NodeRedis).options?.socket ?? {};
  return { host, port, path };
}
