import { LockConfigurationError } from '../../../core/lock.errors.js';
import { type PlainAccess } from '../plain-options.js';
import { type RedisNatMap } from '../redis-connection.js';
import { type ServerAddress } from '../server-address.js';
import { CONNECT_TIMEOUT_MS } from '../../timing.js';

// What the store uses of node-redis 5 and 6, in types of our own: those of the two versions differ.

/** The options of a socket: those of Node's `net.connect` and `tls.connect`, and some more. */
interface SocketOptions {
  readonly host?: string | undefined;
  readonly port?: number | undefined;
  readonly path?: string | undefined;
  readonly tls?: boolean | undefined;
  readonly connectTimeout?: number | undefined;
  readonly [option: string]: unknown;
}

/** The options of `createClient`, which are also those of each node of a cluster. */
export interface NodeRedisOptions {
  readonly url?: string | undefined;
  readonly socket?: SocketOptions | undefined;
  readonly username?: string | undefined;
  readonly password?: string | undefined;
  readonly database?: number | undefined;
  readonly name?: string | undefined;
  readonly RESP?: number | undefined;
  readonly keyPrefix?: string | Buffer | undefined;
  readonly [option: string]: unknown;
}

/** A client of `createClient`. */
export interface NodeRedis extends NodeJS.EventEmitter {
  readonly isOpen: boolean;
  readonly isReady: boolean;
  readonly options?: NodeRedisOptions | undefined;
  connect(): Promise<unknown>;
  destroy(): void;
  duplicate(overrides: NodeRedisOptions): NodeRedis;
  sendCommand(args: readonly string[], options: CommandOptions): Promise<unknown>;
  subscribe(channel: string, listener: (message: string, channel: string) => void): Promise<unknown>;
}

interface CommandOptions {
  readonly typeMapping: object;
  readonly timeout: undefined;
  readonly asap: false;
  /** Takes a command back that waits in the queue of the client; one that was written stays. */
  readonly abortSignal: AbortSignal;
}

export type CreateClient = (options: NodeRedisOptions) => NodeRedis;

/**
 * Whatever the application chose for its own connections: ours queue nothing, never reconnect by themselves, have no other deadlines
 * than those of the store, and receive nothing that they did not ask for.
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
  // With them, a server moves connections to another address behind our back.
  maintNotifications: 'disabled',
} satisfies NodeRedisOptions;

/** The options of a connection of our own: `options` as the application or a URL gave them, and where the connection leads. */
export const ownOptions = (
  options: NodeRedisOptions,
  at: Partial<ServerAddress> | { readonly path: string },
  cut?: AbortSignal,
): NodeRedisOptions => ({
  ...options,
  ...OWN_OPTIONS,
  socket: {
    ...options.socket,
    ...at,
    connectTimeout: connectTimeoutOf(options),
    socketTimeout: undefined,
    reconnectStrategy: false,
    // An option of Node: it destroys the socket.
    signal: cut,
  },
});

/** 0 means no limit: a host that stays silent would be waited for indefinitely. */
export const connectTimeoutOf = ({ socket }: NodeRedisOptions): number => socket?.connectTimeout || CONNECT_TIMEOUT_MS;

/** Translates the options of `connection` to those of node-redis. Without a protocol of choice, the one of every server. */
export function optionsFrom({ db, connectionName, protocol, tls, ...access }: PlainAccess): NodeRedisOptions {
  const { username, password, connectTimeout, family, keepAlive, noDelay } = access;
  const socket: SocketOptions = { ...tls, connectTimeout };
  const chosen = Object.entries({ family, noDelay, tls: tls && true }).filter(([, value]) => value !== undefined);
  return {
    username,
    password,
    database: db,
    name: connectionName,
    RESP: protocol ?? 2,
    socket: { ...socket, ...Object.fromEntries(chosen), ...keepAliveOf(keepAlive) },
  };
}

/** In ioredis, a delay; in Node, a switch and a delay. */
const keepAliveOf = (delayMs: number | undefined): SocketOptions =>
  delayMs === undefined ? {} : { keepAlive: true, keepAliveInitialDelay: delayMs };

/** A node or a sentinel, as the options of node-redis name it. */
interface GivenNode extends Partial<ServerAddress> {
  readonly url?: string | undefined;
  readonly socket?: SocketOptions | undefined;
}

interface SharedOptions {
  readonly RESP?: number | undefined;
  readonly keyPrefix?: string | Buffer | undefined;
  readonly nodeAddressMap?: RedisNatMap | undefined;
}

/** The options of `createCluster`. */
export interface ClusterOptions extends SharedOptions {
  readonly rootNodes: readonly GivenNode[];
  readonly defaults?: NodeRedisOptions | undefined;
}

/** The options of `createSentinel`. */
export interface SentinelOptions extends SharedOptions {
  readonly name: string;
  readonly sentinelRootNodes: readonly GivenNode[];
  readonly nodeClientOptions?: NodeRedisOptions | undefined;
  readonly sentinelClientOptions?: NodeRedisOptions | undefined;
}

/**
 * The options of a cluster client, or of a client by sentinels. node-redis keeps them to itself, and passes them to the class of the
 * client for a duplicate: here, to one that only reads them.
 */
export function optionsOf(client: object): ClusterOptions & SentinelOptions {
  let options: (ClusterOptions & SentinelOptions) | undefined;
  const reader = {
    constructor: function Reader(given: ClusterOptions & SentinelOptions): void {
      options = given;
    },
  };
  const { _self: itself, duplicate } = client as { readonly _self?: object; readonly duplicate: () => unknown };
  try {
    duplicate.call(Object.create(reader, { _self: { value: itself ?? client } }));
  } catch {
    // Another version than 5 and 6.
  }
  if (options) return options;
  throw new LockConfigurationError(
    'Expected `connection` to be a client of node-redis 5 or 6, whose options can be read; pass options instead.',
  );
}

export function addressOf(node: GivenNode, defaultPort: number): ServerAddress {
  const { url, socket = node } = node;
  const { host = 'localhost', port = defaultPort } = url === undefined ? socket : addressOfUrl(url);
  return { host, port };
}

function addressOfUrl(text: string): Partial<ServerAddress> {
  const { hostname, port } = new URL(text);
  return { host: hostname.replace(/^\[|\]$/g, ''), ...(port !== '' && { port: Number(port) }) };
}

/** What the whole client chooses counts for its nodes, unless they choose it themselves. */
export const nodeOptionsOf = ({ RESP }: SharedOptions, options: NodeRedisOptions = {}): NodeRedisOptions => ({
  ...(RESP !== undefined && { RESP }),
  ...options,
});
