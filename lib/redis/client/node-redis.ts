import { setMaxListeners } from 'node:events';
import { LockConfigurationError } from '../../core/lock.errors.js';
import { chosenMs, CONNECT_TIMEOUT_MS, SENTINEL_COMMAND_TIMEOUT_MS } from '../timing.js';
import {
  checkDuplicate,
  type ClientLibrary,
  guarded,
  hasMethod,
  type ServerPlace,
  warnOfKeyPrefix,
} from './client-library.js';
import { ClusterClient, type RedisClient } from './cluster.js';
import {
  type ClientParts,
  type ConnectionPlan,
  lostError,
  type Session,
  type SessionListener,
  SingleClient,
  type Target,
  unsentError,
} from './redis-client.js';
import { loadNodeRedis } from './optional-peers.cjs';
import { type PlainAccess, readPlainOptions } from './plain-options.js';
import { type RedisAddress, type RedisNatMap } from './redis-connection.js';
import { planBySentinels, type SentinelPlan } from './sentinels.js';
import { addressText, type ServerAddress } from './server-address.js';

// The parts of node-redis 5 and 6 that the store uses, as our types: the types of the two versions differ.

/** The options of a socket: those of Node's `net.connect` and `tls.connect`, and a few more. */
interface SocketOptions {
  readonly host?: string | undefined;
  readonly port?: number | undefined;
  readonly path?: string | undefined;
  readonly connectTimeout?: number | undefined;
  readonly [option: string]: unknown;
}

/** The options of `createClient`, which are also those of each node of a cluster. */
interface NodeRedisOptions {
  readonly socket?: SocketOptions | undefined;
  readonly database?: number | undefined;
  readonly keyPrefix?: string | Buffer | undefined;
  readonly [option: string]: unknown;
}

/** A client of `createClient`. */
interface NodeRedis extends NodeJS.EventEmitter {
  readonly isReady: boolean;
  readonly options?: NodeRedisOptions | undefined;
  connect(): Promise<unknown>;
  destroy(): void;
  duplicate(overrides: NodeRedisOptions): NodeRedis;
  sendCommand(args: readonly string[], options: object): Promise<unknown>;
  subscribe(channel: string, listener: (message: string, channel: string) => void): Promise<unknown>;
}

/** A node or a sentinel, in the options of node-redis. */
interface GivenNode extends Partial<ServerAddress> {
  readonly url?: string | undefined;
  readonly socket?: SocketOptions | undefined;
}

/** The options of `createCluster` and of `createSentinel`. */
interface GroupOptions {
  readonly RESP?: number | undefined;
  readonly keyPrefix?: string | Buffer | undefined;
  readonly nodeAddressMap?: RedisNatMap | undefined;
  readonly rootNodes: readonly GivenNode[];
  readonly defaults?: NodeRedisOptions | undefined;
  readonly name: string;
  readonly sentinelRootNodes: readonly GivenNode[];
  readonly nodeClientOptions?: NodeRedisOptions | undefined;
  readonly sentinelClientOptions?: NodeRedisOptions | undefined;
}

/** Creates a client that is not connected yet. */
type Make = (options: NodeRedisOptions) => NodeRedis;

/**
 * Overrides what the application chose for its own connections: ours do not queue, never reconnect by themselves, only have the
 * deadlines of the store, and receive nothing that they did not request.
 */
const OWN_OPTIONS = {
  url: undefined,
  keyPrefix: undefined,
  disableOfflineQueue: true,
  commandsQueueMaxLength: undefined,
  commandOptions: {},
  pingInterval: undefined,
  readonly: false,
  clientSideCache: undefined,
  emitInvalidate: undefined,
  // With them, a server could move connections to another address unnoticed.
  maintNotifications: 'disabled',
} satisfies NodeRedisOptions;

/** Texts and numbers; a map of RESP3 is a list, as in RESP2. The key is that of node-redis for maps. */
const TYPES = { 37: Array };

/**
 * A client of node-redis cannot be cut and opened again: while it waits for a host, or pauses between two tries, it begins a second loop
 * of them. `make`: with the options of its socket.
 */
function openSession(
  make: (socket: SocketOptions) => NodeRedis,
  peer: ServerAddress | null,
  listener: SessionListener,
): Session {
  const [cut, loss, channels] = [new AbortController(), new AbortController(), new Set<string>()];
  // Each command listens to it.
  setMaxListeners(0, loss.signal);
  // `signal` is an option of Node: it destroys the socket.
  const client = make({ socketTimeout: undefined, reconnectStrategy: false, signal: cut.signal });
  const fail = (error: Error): void => listener.onOver(errorOfConnection(error));
  client.on('connect', () => listener.onConnected()).on('ready', () => listener.onReady());
  client.on('error', fail).on('end', () => listener.onOver());
  client.connect().catch(fail);
  // A command waits in the queue of the client until the end of the turn, and longer where the socket takes no more. Were the
  // connection lost meanwhile, the client would send it by the next one. Therefore `loss` takes it back.
  const options = { typeMapping: TYPES, timeout: undefined, asap: false, abortSignal: loss.signal };
  const send: Session['send'] = (words) => client.sendCommand(words.map(String), options).catch(rethrow);
  return {
    peer,
    get isWritable() {
      return client.isReady;
    },
    send,
    async subscribe(channel) {
      // node-redis answers by itself when it is subscribed: this would not show whether the server is still there.
      if (channels.has(channel)) return send(['ping']);
      await client.subscribe(channel, (text, from) => listener.onMessage(from, text)).catch(rethrow);
      return channels.add(channel);
    },
    async end() {
      loss.abort();
      try {
        client.destroy();
      } catch {
        // node-redis 5 throws this when it has already ended.
      }
      // `destroy` forgets a socket that still waits for its host, which would stay open once it is connected.
      cut.abort();
      // Node closes the sockets that were destroyed at the end of a turn of its event loop: after the second one, nothing is left.
      // oxlint-disable-next-line eslint/no-restricted-globals -- no clock counts the turns of the event loop
      for (let turn = 1; turn <= 2; turn += 1) await new Promise((resolve) => void setImmediate(resolve));
    },
  };
}

/** These mean that the command is still unsent, and will never be sent. */
const UNSENT = new Set(['The command was aborted', 'The client is closed', 'The client is offline']);

/** Converts an error to one of the port. Anything that is not a reply comes from the end of a connection. */
function rethrow(error: Error): never {
  throw errorOfCommand(error);
}

export function errorOfCommand(error: Error): Error {
  if (isReply(error)) return asReply(error);
  if (error.message === 'The queue is full') return error;
  return UNSENT.has(error.message) ? unsentError() : lostError(error);
}

/** The error of a connection as one of the port, in the format of Node; undefined: it ended without one. */
export function errorOfConnection(error: Error): Error | undefined {
  if (error.message === 'Socket closed unexpectedly') return undefined;
  if (error.message === 'Connection timeout') return new Error('connect ETIMEDOUT', { cause: error });
  return isReply(error) ? asReply(error) : error;
}

/** By class, from any copy of node-redis; and by form, because bundlers rename classes. A plain error comes from the application. */
function isReply(error: Error): boolean {
  for (let one: object | null = error; one !== null; one = Object.getPrototypeOf(one) as object | null) {
    if (one.constructor?.name === 'ErrorReply') return true;
  }
  const isPlain = Object.getPrototypeOf(error) === Error.prototype;
  return !isPlain && !('code' in error) && /^[A-Z][A-Z0-9]+ /.test(error.message);
}

const asReply = (error: Error): Error => Object.assign(error, { name: 'ReplyError' });

/** The clients of clusters and by sentinels queue commands and resend them, so only their options are used. */
function copyOf(client: object, parts: ClientParts): RedisClient {
  const kind = kindOf(client);
  const options = kind === 'single' ? undefined : optionsOf(client);
  warnOfKeyPrefix(options ?? (client as NodeRedis).options, parts);
  if (!options) return copyOfSingle(client as NodeRedis, parts);
  // The options of the whole client apply to its nodes, unless they have their own.
  const { RESP, nodeAddressMap: natMap } = options;
  const ofNodes = {
    ...(RESP !== undefined && { RESP }),
    ...(kind === 'cluster' ? options.defaults : options.nodeClientOptions),
  };
  if (kind === 'cluster') {
    const nodes = options.rootNodes.map((node) => addressOf(node, 6379));
    return clusterOf(nodes, ofNodes, natMap, undefined, parts);
  }
  const sentinels = options.sentinelRootNodes.map((node) => addressOf(node, 26_379));
  return bySentinels({ name: options.name, sentinels, natMap }, options.sentinelClientOptions ?? {}, ofNodes, parts);
}

/** The current credentials of the client, read when a connection begins. */
function copyOfSingle(client: NodeRedis, parts: ClientParts): SingleClient {
  const { database, socket } = client.options ?? {};
  const { path, host, port = 6379 } = socket ?? {};
  const make: Make = (changes) => client.duplicate({ ...changes, database });
  checkDuplicate(make(OWN_OPTIONS), 'sendCommand');
  const at = path === undefined ? { host: host || 'localhost', port } : { path };
  return new SingleClient(planOf(at, { socket }, make), parts);
}

function open(connection: RedisAddress, parts: ClientParts): RedisClient {
  const plain = readPlainOptions(connection, 'node-redis');
  const options = optionsFrom(plain);
  const { at, natMap, connectTimeout, family } = plain;
  if ('nodes' in at) return clusterOf(at.nodes, options, natMap, plain.slotsRefreshInterval, parts);
  if (!('sentinels' in at)) return new SingleClient(planOf(at, options), parts);
  const { name, sentinels, ...access } = at;
  const ofSentinels = optionsFrom({ ...access, connectTimeout, family, db: 0 });
  return bySentinels({ name, sentinels, natMap }, ofSentinels, options, parts);
}

function clusterOf(
  nodes: readonly ServerAddress[],
  options: NodeRedisOptions,
  natMap: RedisNatMap | undefined,
  refreshMs: number | undefined,
  parts: ClientParts,
): ClusterClient {
  const ofNodes = { ...options, database: 0 };
  const plan = { seeds: async () => nodes, refreshMs, natMap, node: (at: ServerAddress) => planOf(at, ofNodes) };
  return new ClusterClient(plan, parts);
}

function bySentinels(
  group: Pick<SentinelPlan, 'name' | 'sentinels' | 'natMap'>,
  ofSentinels: NodeRedisOptions,
  ofServers: NodeRedisOptions,
  parts: ClientParts,
): SingleClient {
  // In RESP2, a subscribed connection does not answer queries.
  const ofLinks = { ...ofSentinels, RESP: 3, database: 0 };
  const plan = {
    ...group,
    answerMs: SENTINEL_COMMAND_TIMEOUT_MS,
    isOpenToOthers: true,
    sentinel: (at: ServerAddress) => planOf(at, ofLinks),
    master: (at: ServerAddress) => planOf(at, ofServers),
  };
  return new SingleClient(planBySentinels(plan, parts), parts);
}

/** How a server is reached with these options. */
function planOf(
  at: ServerAddress | { readonly path: string },
  options: NodeRedisOptions,
  make: Make = (own) => loadModel().duplicate(own),
): ConnectionPlan & { readonly target: Target } {
  const peer = 'path' in at ? null : at;
  const connectTimeout = chosenMs(options.socket?.connectTimeout, CONNECT_TIMEOUT_MS);
  const makeBy = (socket: SocketOptions): NodeRedis =>
    make({
      ...options,
      ...OWN_OPTIONS,
      socket: { ...guarded(options.socket ?? {}), ...at, connectTimeout, ...socket },
    });
  return {
    address: 'path' in at ? at.path : addressText(at),
    endsForGood: false,
    connectTimeout,
    target: { open: (listener) => openSession(makeBy, peer, listener) },
  };
}

/** Translates the options of `connection` to those of node-redis. The default protocol is the one of every server. */
function optionsFrom({ db, connectionName, protocol, tls, ...access }: PlainAccess): NodeRedisOptions {
  const { username, password, connectTimeout, family, keepAlive, noDelay } = access;
  const chosen = Object.entries({ family, noDelay, tls: tls && true }).filter(([, value]) => value !== undefined);
  // In ioredis, a delay; in Node, a flag and a delay.
  const kept = keepAlive === undefined ? {} : { keepAlive: true, keepAliveInitialDelay: keepAlive };
  const socket = { ...tls, connectTimeout, ...Object.fromEntries(chosen), ...kept };
  return { username, password, database: db, name: connectionName, RESP: protocol ?? 2, socket };
}

/**
 * The options of a cluster client, or of a client by sentinels. node-redis hides them, and passes them to the class of the
 * client for a duplicate: here, to a class that only reads them.
 */
function optionsOf(client: object): GroupOptions {
  let options: GroupOptions | undefined;
  const reader = {
    constructor: function Reader(given: GroupOptions): void {
      options = given;
    },
  };
  const { _self: itself, duplicate } = client as { readonly _self?: object; readonly duplicate: () => unknown };
  try {
    duplicate.call(Object.create(reader, { _self: { value: itself ?? client } }));
  } catch {
    // A version other than 5 and 6.
  }
  if (options) return options;
  throw new LockConfigurationError(
    'Expected `connection` to be a client of node-redis 5 or 6, whose options can be read; pass options instead.',
  );
}

function addressOf({ url, socket, ...node }: GivenNode, defaultPort: number): ServerAddress {
  const { host = 'localhost', port = defaultPort } = socket ?? node;
  if (url === undefined) return { host, port };
  const { hostname, port: text } = new URL(url);
  return { host: hostname.replace(/^\[|\]$/g, ''), port: text === '' ? defaultPort : Number(text) };
}

function kindOf(client: object): 'single' | 'cluster' | 'sentinels' {
  if (hasMethod(client, 'getRandomNode')) return 'cluster';
  return hasMethod(client, 'getSentinelNode') ? 'sentinels' : 'single';
}

/** node-redis 5 and 6. */
export const nodeRedisLibrary: ClientLibrary = {
  name: 'node-redis',
  isClient: (value): value is object => hasMethod(value, 'evalSha'),
  methods: ['sendCommand', 'duplicate', 'connect', 'destroy', 'on', 'off'],
  isCluster: (client) => kindOf(client) === 'cluster',
  placeOf(client): ServerPlace {
    if (kindOf(client) === 'sentinels') {
      const { name, sentinelRootNodes } = optionsOf(client);
      return { name, sentinels: sentinelRootNodes.map((node) => addressOf(node, 26_379)) };
    }
    const { host, port, path } = (client as NodeRedis).options?.socket ?? {};
    return { host, port, path };
  },
  // redis 4 has no sentinels.
  isInstalled: () => loadNodeRedis()?.createSentinel !== undefined,
  copyOf,
  open,
};

let model: NodeRedis | undefined;

/**
 * A client that never connects; our connections are its duplicates. `createClient` builds a class with all commands of
 * Redis whenever its options change, which takes a process tens of milliseconds: too long for each try to connect.
 */
function loadModel(): NodeRedis {
  const create = loadNodeRedis()?.createClient as ((options: object) => NodeRedis) | undefined;
  model ??= create?.({ maintNotifications: 'disabled' });
  if (model) return model;
  throw new LockConfigurationError('Expected the package `redis` to be installed. Install it: npm install redis.');
}
