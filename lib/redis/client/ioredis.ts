import { resolveSrv, type SrvRecord } from 'node:dns';
import type { Cluster, ClusterNode, ClusterOptions, Redis, RedisOptions } from 'ioredis';
import { LockConfigurationError } from '../../core/lock.errors.js';
import {
  chosenMs,
  CONNECT_TIMEOUT_MS,
  DISCONNECT_TIMEOUT_MS,
  IOREDIS_CONNECT_TIMEOUT_MS,
  LOADING_RETRY_MS,
  SENTINEL_COMMAND_TIMEOUT_MS,
} from '../timing.js';
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
  type Session,
  type SessionListener,
  SingleClient,
  type Target,
} from './redis-client.js';
import { loadIoredis, loadIovalkey } from './optional-peers.cjs';
import { readUrl, withoutUrl } from './plain-options.js';
import { type RedisAddress, type RedisClusterOptions } from './redis-connection.js';
import { planBySentinels } from './sentinels.js';
import { addressText, type ServerAddress } from './server-address.js';

/** Creates a client of the library, from the same copy as the one of the application, with some options changed. */
type Make = (changes: RedisOptions) => Redis;

/**
 * Overrides what the application chose for its own connections: ours do not queue, resend or reconnect by themselves, and
 * only have the deadlines of the store.
 */
const OWN_OPTIONS: RedisOptions = {
  lazyConnect: true,
  keyPrefix: undefined,
  readOnly: false,
  enableOfflineQueue: false,
  enableAutoPipelining: false,
  autoResendUnfulfilledCommands: false,
  // ioredis leaves the rejection of a subscription unhandled when the connection closes meanwhile.
  autoResubscribe: false,
  reconnectOnError: null,
  retryStrategy: () => null,
  commandTimeout: undefined,
  // CLUSTER SLOTS and WAIT answer with numbers.
  stringNumbers: false,
  // While a server loads its data, ioredis asks again after this time, by a timer that outlives the connection and keeps the process alive.
  maxLoadingRetryTime: LOADING_RETRY_MS,
  disconnectTimeout: DISCONNECT_TIMEOUT_MS,
};

/** Options that a client may have for its commands, or to reach the master, and that a sentinel does not support. */
const NOT_FOR_SENTINELS: RedisOptions = {
  sentinels: undefined,
  path: undefined,
  Connector: undefined,
  db: 0,
  connectionName: undefined,
  socketTimeout: undefined,
  protocol: 2,
  replyMapping: undefined,
  himportFieldsets: undefined,
  enableReadyCheck: false,
};

function openSession(client: Redis, db: number, peer: ServerAddress | null, listener: SessionListener): Session {
  const ended = new Promise((resolve) => client.once('end', resolve));
  client.on('error', (error) => listener.onOver(error));
  client.on('connect', () => {
    reportGreeting(client, listener);
    listener.onConnected();
  });
  client.on('ready', () => {
    // Not by ioredis: it is ready when its SELECT is refused, and reports that before a refused password. An environment variable is
    // a text.
    if (String(db) === '0') return listener.onReady();
    client.select(db).then(
      () => listener.onReady(),
      (error: Error) => listener.onOver(namedAfter(error, db)),
    );
  });
  client.on('close', () => listener.onOver()).on('end', () => listener.onOver());
  client.on('message', (channel, text) => listener.onMessage(channel, text));
  // A Connector of the application may throw: then there is no event.
  client.connect().catch((error: Error) => listener.onOver(error));
  return {
    peer,
    get isWritable() {
      return client.status === 'ready' && client.stream.writable;
    },
    get stream() {
      return client.stream;
    },
    // Each additional promise slows down all commands: redis-errors.ts reads the errors of ioredis.
    send: ([name, ...words]) => client.call(String(name), ...words),
    subscribe: (channel) => client.subscribe(channel),
    async end() {
      // ioredis would set a timer to destroy a socket that has ended.
      if (client.status === 'close' || client.status === 'end') return ended;
      try {
        client.disconnect(false);
      } catch {
        // By a Connector of the application.
      }
      (client.stream as Redis['stream'] | undefined)?.destroy();
      return ended;
    },
  };
}

const namedAfter = (error: Error, db: number): Error =>
  Object.assign(new Error(`${error.message} (SELECT ${db})`), { name: error.name });

/**
 * A server that refuses a connection sends the reason and closes it. ioredis takes that line for the answer to its own command, and
 * drops it; here it becomes the error of the connection.
 */
function reportGreeting({ stream }: Redis, listener: SessionListener): void {
  let received = '';
  const onData = (data: Buffer): void => {
    if (received !== '') stream.off('data', onData);
    received += received === '' ? String(data) : '\n';
  };
  const onClose = (): void => {
    const [, text] = /^-(.*)\r\n$/.exec(received) ?? [];
    if (text !== undefined) listener.onOver(Object.assign(new Error(text), { name: 'ReplyError' }));
  };
  // A replacement for ioredis in a test may not have a real socket.
  (stream as Partial<Redis['stream']>).on?.('data', onData).once('close', onClose);
}

function copyOf(client: Redis | Cluster, parts: ClientParts): RedisClient {
  warnOfKeyPrefix(client.options, parts);
  if (client.isCluster) return copyOfCluster(client as Cluster, parts);
  const single = client as Redis;
  checkDuplicate(single.duplicate({ lazyConnect: true }), 'evalsha');
  const { connectTimeout } = single.options;
  const isChosen = connectTimeout !== IOREDIS_CONNECT_TIMEOUT_MS;
  const options = { ...single.options, connectTimeout: isChosen ? connectTimeout : undefined };
  // The current credentials of the client, read when a connection begins.
  return singleOf(options, (changes) => single.duplicate(changes), parts);
}

function copyOfCluster(client: Cluster, parts: ClientParts): RedisClient {
  const { startupNodes = [] } = client as unknown as { readonly startupNodes?: readonly ClusterNode[] };
  const known = client.nodes().map(({ options: { host, port } }) => ({ host: host!, port: port! }));
  const copy = checkDuplicate(client.duplicate([{ port: 1 }], { lazyConnect: true }), 'evalsha');
  const { connectionPool } = copy as unknown as { readonly connectionPool: { findOrCreate(node: object): void } };
  // A node that never connects: of the class of the copy of the library.
  connectionPool.findOrCreate({ host: 'localhost', port: 1 });
  const [model] = copy.nodes();
  const make: Make = (changes) => model!.duplicate({ ...client.options.redisOptions, ...changes });
  return clusterOf([...known, ...startupNodes], client.options, make, parts);
}

function openBy({ Redis }: typeof import('ioredis'), connection: RedisAddress, parts: ClientParts): RedisClient {
  const { cluster, ...given } = withoutUrl(connection) as Partial<RedisClusterOptions>;
  const options = (cluster ? (given as ClusterOptions).redisOptions : given) as RedisOptions;
  const make: Make = (changes) => new Redis({ ...options, ...changes });
  if (cluster) return clusterOf(cluster, given as ClusterOptions, make, parts);
  try {
    make(OWN_OPTIONS);
  } catch (error) {
    throw new LockConfigurationError(
      `Expected \`connection\` to be options of ioredis, which refuses them: ${(error as Error).message}.`,
    );
  }
  return singleOf(options, make, parts);
}

function singleOf(options: RedisOptions, make: Make, parts: ClientParts): SingleClient {
  const { host = 'localhost', port = 6379, path, sentinels, Connector } = options;
  if (!sentinels) return new SingleClient(planOf(path ? { path } : { host, port }, options, make), parts);
  const { sentinelUsername: username, sentinelPassword: password, sentinelTLS: tls } = options;
  const ofSentinels = { ...NOT_FOR_SENTINELS, username, password, tls };
  const tlsOfMaster = options.enableTLSForSentinelMode ? options.tls : undefined;
  const ofMaster = { sentinels: undefined, path: undefined, tls: tlsOfMaster };
  const plan = {
    name: options.name!,
    sentinels: sentinels.map((at) => ({ host: at.host ?? '127.0.0.1', port: at.port ?? 26_379 })),
    answerMs: chosenMs(options.sentinelCommandTimeout, SENTINEL_COMMAND_TIMEOUT_MS),
    isOpenToOthers: options.updateSentinels !== false,
    natMap: options.natMap,
    hasOwnRoute: Boolean(Connector),
    sentinel: (at: ServerAddress) => planOf(at, options, make, { ...ofSentinels, ...at }),
    master: (at: ServerAddress) => planOf(at, options, make, Connector ? {} : { ...ofMaster, ...at }),
  };
  return new SingleClient(planBySentinels(plan, parts), parts);
}

function clusterOf(
  nodes: readonly ClusterNode[],
  options: ClusterOptions,
  make: Make,
  parts: ClientParts,
): ClusterClient {
  const given = nodes.map((node) => {
    if (typeof node === 'number') return { port: node };
    return typeof node === 'string' ? readUrl(node.includes('://') ? node : `redis://${node}`, '`connection`') : node;
  });
  const seeds = given.map(({ host = '127.0.0.1', port = 6379 }) => ({ host, port }));
  // An application may set user and password on some nodes only.
  const ofNodes = Object.assign({}, ...given.toReversed(), { db: 0 }) as RedisOptions;
  const plan = {
    seeds: () => resolveSeeds(seeds, options),
    refreshMs: options.slotsRefreshInterval,
    natMap: options.natMap,
    node: (at: ServerAddress) => planOf(at, options.redisOptions ?? {}, make, { ...ofNodes, ...at }),
  };
  return new ClusterClient(plan, parts);
}

/** How a server is reached with these options, apart from some changes. */
function planOf(
  at: ServerAddress | { readonly path: string },
  options: RedisOptions,
  make: Make,
  changes: RedisOptions = {},
): ConnectionPlan & { readonly target: Target } {
  const connectTimeout = chosenMs(options.connectTimeout, CONNECT_TIMEOUT_MS);
  const { tls, db } = { ...options, ...changes };
  const own = { ...OWN_OPTIONS, ...changes, connectTimeout, db: 0, ...(tls && { tls: guarded(tls) }) };
  const peer = 'path' in at ? null : at;
  return {
    address: 'path' in at ? at.path : addressText(at),
    endsForGood: false,
    connectTimeout,
    target: { open: (listener) => openSession(make(own), db ?? 0, peer, listener) },
  };
}

/** The addresses of some nodes, from the services that an application names for them. */
async function resolveSeeds(seeds: readonly ServerAddress[], options: ClusterOptions): Promise<ServerAddress[]> {
  const { useSRVRecords, dnsLookup, resolveSrv: resolve = resolveSrv } = options;
  const found = seeds.map(async ({ host, port }): Promise<ServerAddress[]> => {
    if (useSRVRecords) {
      const records = await new Promise<SrvRecord[]>((done) =>
        resolve(host, (error, all) => done(error ? [] : (all ?? []))),
      );
      return records.toSorted((a, b) => a.priority - b.priority).map((one) => ({ host: one.name, port: one.port }));
    }
    if (!dnsLookup) return [{ host, port }];
    // Without a host, ioredis would connect to this machine.
    return new Promise((done) =>
      dnsLookup(host, (error, address) => done(error || !address ? [] : [{ host: address, port }])),
    );
  });
  return (await Promise.all(found)).flat();
}

/** A library with the classes of ioredis. Each takes the clients of the other: it uses what the client itself has. */
const libraryLike = (name: string, load: typeof loadIoredis): ClientLibrary => ({
  name,

  // node-redis also has `duplicate`, and names the command `evalSha`.
  isClient: (value): value is Redis | Cluster =>
    hasMethod(value, 'evalsha') || (hasMethod(value, 'duplicate') && !hasMethod(value, 'evalSha')),

  methods: ['evalsha', 'eval', 'duplicate', 'connect', 'disconnect', 'on', 'once', 'off'],
  isCluster: (client) => (client as { readonly isCluster?: boolean }).isCluster === true,
  placeOf: (client) => (client as { readonly options?: ServerPlace }).options ?? {},
  // ioredis 4 only exports the class.
  isInstalled: () => load()?.Redis !== undefined,
  copyOf: (client, parts) => copyOf(client as Redis | Cluster, parts),
  open: (connection, parts) => openBy(load()!, connection, parts),
});

export const ioredisLibrary = libraryLike('ioredis', loadIoredis);
export const iovalkeyLibrary = libraryLike('iovalkey', loadIovalkey);
