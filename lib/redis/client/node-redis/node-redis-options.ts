import { CONNECT_TIMEOUT_MS } from '../../timing.js';
import { type PlainAccess } from '../plain-options.js';
import { type ServerAddress } from '../server-address.js';
import { type NodeRedisOptions, type SocketOptions } from './node-redis-types.js';

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
