import { AsyncLocalStorage } from 'node:async_hooks';
import { Cluster, Redis, type ClusterOptions, type RedisOptions } from 'ioredis';
import { Cluster as ValkeyCluster, Valkey } from 'iovalkey';
import { createClient, createCluster, createSentinel } from 'redis';
import { type RedisConnection } from '../../../lib/index.js';
import { SOON_CLOSED, closeLater } from '../apps/lock-app.js';
import { LIBRARY } from '../clients/library.js';
import { SingleClient } from '../../../lib/redis/client/redis-client.js';
import { redisUrl } from '../topologies/topology.js';

const ignore = (): void => undefined;

/** The classes of the library under test, or of the copy of ioredis that scripts/compatibility.mjs has installed. */
const OF_IOREDIS =
  LIBRARY === 'iovalkey'
    ? { Redis: Valkey as never as typeof Redis, Cluster: ValkeyCluster as never as typeof Cluster }
    : { Redis, Cluster };

/** A client that an application has, and what tests do with it as that application. */
export interface AppClient {
  /** What the module gets. */
  readonly client: RedisConnection & NodeJS.EventEmitter & { duplicate(...overrides: never[]): object };
  /** Whether it has a connection to a server, which need not have answered yet. */
  readonly isConnected: boolean;
  send(...words: string[]): Promise<unknown>;
  select(database: number): Promise<unknown>;
  /** Sets the password of the connections that begin from now on. */
  setPassword(password: string): void;
  /** Ends it after the commands under way. */
  quit(): Promise<unknown>;
  /** Ends it at once. */
  disconnect(): void;
}

interface AppOptions {
  readonly username?: string;
  readonly password?: string;
  /** It connects by itself only on a command (ioredis), or on `connect` (node-redis). */
  readonly isLazy?: boolean;
  /** It reconnects quickly and forever, and keeps its commands meanwhile. */
  readonly isPatient?: boolean;
}

/** A client of the library under test. */
export const appClient = (url: string, options: AppOptions = {}): AppClient =>
  LIBRARY === 'node-redis' ? appOfNodeRedis(url, options) : appOfIoredis(url, options);

/** A client of the library under test that the application passes to the module, and leaves alone. */
export const givenClient = (url: string): RedisConnection => appClient(url).client;

function appOfIoredis(url: string, { isLazy = false, isPatient = false, ...options }: AppOptions): AppClient {
  const patience = isPatient && { maxRetriesPerRequest: null, retryStrategy: () => 50 };
  const client = givenIoredis(url, { ...options, lazyConnect: isLazy, ...patience });
  return {
    client,
    get isConnected() {
      return client.status === 'connect' || client.status === 'ready';
    },
    send: (command, ...words) => client.call(command, ...words),
    select: (database) => client.select(database),
    setPassword: (password) => void (client.options.password = password),
    quit: () => client.quit(),
    disconnect: () => client.disconnect(),
  };
}

function appOfNodeRedis(url: string, { isLazy = false, isPatient = false, username, password }: AppOptions): AppClient {
  const patience = isPatient && { socket: { reconnectStrategy: 50 } };
  const access = { username, password };
  // Whatever is in its options when a client is made stays: what changes comes from a provider.
  const credentialsProvider = { type: 'async-credentials-provider', credentials: async () => ({ ...access }) };
  const client = newNodeRedis(url, { ...(username !== undefined && { credentialsProvider }), ...patience });
  let isConnected = false;
  client.on('connect', () => (isConnected = true));
  if (!isLazy) client.connect().catch(ignore);
  return {
    client,
    get isConnected() {
      return isConnected && client.isOpen;
    },
    send: (...words) => client.sendCommand(words),
    select: (database) => client.select(database),
    setPassword: (other) => void (access.password = other),
    quit: () => client.close(),
    disconnect: () => client.destroy(),
  };
}

/** A client of ioredis or iovalkey with options that only they have. */
export function givenIoredis(url: string, options: RedisOptions = {}): Redis {
  const client = new OF_IOREDIS.Redis(url, { ...SOON_CLOSED, ...options });
  client.on('error', ignore);
  const duplicate = client.duplicate.bind(client);
  const copies: Redis[] = [client];
  let isOver = false;
  // A connection that is left open would keep this process alive; one test is about those alone.
  client.duplicate = (override) => {
    const copy = duplicate(override);
    copies.push(copy);
    if (isOver) copy.disconnect();
    return copy;
  };
  const close = async (): Promise<void> => {
    isOver = true;
    for (const copy of copies) copy.disconnect();
  };
  closeLater({ close });
  return client;
}

/** A client of node-redis that is not connected yet. */
function newNodeRedis(url: string, options: object) {
  const client = createClient({ url, ...options });
  client.on('error', ignore);
  const close = async (): Promise<void> => {
    // A socket that still waits for its host would live on.
    client.once('connect', () => client.destroy());
    if (client.isOpen) client.destroy();
  };
  closeLater({ close });
  return client;
}

/** A client of node-redis that the application passes to the module, with options that only node-redis has. */
export function givenNodeRedis(url: string, options: object = {}): RedisConnection {
  const client = newNodeRedis(url, options);
  client.connect().catch(ignore);
  return client;
}

interface NodeAddress {
  readonly host: string;
  readonly port: number;
}

/** A cluster client of the library under test; the module reads the options of that of node-redis, and needs no connection of it. */
export function givenCluster(nodes: readonly NodeAddress[], options: ClusterOptions = {}): RedisConnection {
  if (LIBRARY !== 'node-redis') return givenIoredisCluster(nodes, options);
  const { username, password } = { ...options, ...options.redisOptions };
  const access = { ...(username && { username }), ...(password && { password }) };
  const rootNodes = nodes.map(({ host, port }) => ({ socket: { host, port } }));
  return createCluster({ rootNodes, defaults: access });
}

/** A cluster client of ioredis or iovalkey with options that only they have. */
export function givenIoredisCluster(nodes: readonly NodeAddress[], options: ClusterOptions = {}): Cluster {
  const redisOptions = { ...SOON_CLOSED, ...options.redisOptions };
  const client = new OF_IOREDIS.Cluster([...nodes], { ...options, redisOptions });
  client.on('error', ignore);
  closeLater({ close: async () => client.disconnect() });
  return client;
}

/** A client by sentinels of the library under test; that of node-redis is read like its cluster client. */
export function givenBySentinels(group: {
  readonly sentinels: readonly NodeAddress[];
  readonly name: string;
}): RedisConnection {
  const { sentinels, name } = group;
  if (LIBRARY !== 'node-redis') return givenIoredis('', { sentinels: [...sentinels], name });
  return createSentinel({ name, sentinelRootNodes: [...sentinels] });
}

interface Duplicated {
  duplicate(options: object): Duplicated;
}

/** The connections of a subscriber are opened in this context, also those that replace another one. */
const ofSubscriber = new AsyncLocalStorage<true>();
const openSubscriber: (this: SingleClient) => SingleClient = Reflect.get(SingleClient.prototype, 'openSubscriber');
SingleClient.prototype.openSubscriber = function (): SingleClient {
  return ofSubscriber.run(true, () => openSubscriber.call(this));
};

/** A client whose subscriber connection takes another route than its commands. */
export function clientWithSubscriberAt(subscriberUrl: string, url = redisUrl()): RedisConnection {
  const { client } = appClient(url);
  const { hostname: host, port } = new URL(subscriberUrl);
  const route = { host, port: Number(port) };
  const given = client as Duplicated;
  const copy = given.duplicate.bind(given);
  const reroute = (options: { readonly socket?: object }) =>
    LIBRARY === 'node-redis' ? { ...options, socket: { ...options.socket, ...route } } : { ...options, ...route };
  const duplicate = (options: object): Duplicated => copy(ofSubscriber.getStore() ? reroute(options) : options);
  return Object.assign(given, { duplicate }) as RedisConnection;
}

const never = (): null => null;
const IN_AN_HOUR = { retryStrategy: () => 3_600_000 };
/** Connections that are configured to reconnect late, or never. */
export const RELUCTANT: Record<string, (url: string) => RedisConnection> = {
  'an own connection that gives up': (url) => ({ port: Number(new URL(url).port), retryStrategy: never }),
  'an own connection that is late': (url) => ({ port: Number(new URL(url).port), ...IN_AN_HOUR }),
  ...(LIBRARY !== 'node-redis' && {
    'a given client that gives up': (url) => givenIoredis(url, { retryStrategy: never }),
    'a given client that is late': (url) => givenIoredis(url, IN_AN_HOUR),
    'a given client that is late and queues nothing': (url) =>
      givenIoredis(url, { ...IN_AN_HOUR, enableOfflineQueue: false }),
  }),
  'a given client of node-redis that gives up': (url) => givenNodeRedis(url, { socket: { reconnectStrategy: false } }),
  'a given client of node-redis that is late': (url) =>
    givenNodeRedis(url, { socket: { reconnectStrategy: 3_600_000 } }),
};
