import { LockConfigurationError } from '../../../core/lock.errors.js';
import { type RedisNatMap } from '../redis-connection.js';
import { type ServerAddress } from '../server-address.js';
import { type NodeRedisOptions, type SocketOptions } from './node-redis-types.js';

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
