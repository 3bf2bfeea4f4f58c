import { createConnection } from 'node:net';
import { connect } from 'node:tls';
import type { Cluster, ClusterOptions, Redis, RedisOptions } from 'ioredis';
import { type Clock, setDeadline, type Timers } from '../../../core/clock.js';
import { type SentinelConnection, type SentinelGroup, type Sentinels } from '../sentinel-watch.js';
import { reachedBy, type ServerAddress } from '../server-address.js';
import {
  CLOSE_TIMEOUT_MS,
  CONNECT_TIMEOUT_MS,
  DISCONNECT_TIMEOUT_MS,
  GREETING_MS,
  IOREDIS_CONNECT_TIMEOUT_MS,
  MAX_SENTINEL_RETRIES,
  reconnectDelayMs,
  SENTINEL_COMMAND_TIMEOUT_MS,
  SLOTS_REFRESH_MS,
} from '../../timing.js';

/** Any client of ioredis or iovalkey, also of the caller's own copy. */
export type Ioredis = Redis | Cluster;

/** The retry strategy of a connection that another one replaces once it has ended. */
export const neverReconnect = (): null => null;

/** Whether a connection of ours stays closed once it has ended; a cluster never does. */
export const endsForGood = (client: Ioredis): boolean =>
  !client.isCluster && (client as Redis).options.retryStrategy === neverReconnect;

/**
 * Our own connections never queue a command: one that cannot be sent now, or that lost its connection, fails at once and
 * is never sent later, because we retry ourselves. They reconnect forever, soon after Redis is back, whatever the
 * application chose for its own connections.
 */
const WITHOUT_QUEUE = {
  enableOfflineQueue: false,
  enableAutoPipelining: false,
  autoResendUnfulfilledCommands: false,
  maxRetriesPerRequest: 0,
  reconnectOnError: null,
  // Every command of ours has a deadline of its own.
  commandTimeout: undefined as never,
  disconnectTimeout: DISCONNECT_TIMEOUT_MS,
} satisfies RedisOptions;

export const OWN_OPTIONS: RedisOptions = {
  ...WITHOUT_QUEUE,
  lazyConnect: true,
  keyPrefix: undefined,
  readOnly: false,
  // ioredis leaves the rejection of a subscription unhandled when the connection closes meanwhile.
  autoResubscribe: false,
  retryStrategy: reconnectDelayMs,
  sentinelRetryStrategy: reconnectDelayMs,
};

/** The options of a cluster client of our own; the options of its nodes are merged. */
export const ownClusterOptions = ({ redisOptions, ...options }: ClusterOptions): ClusterOptions => ({
  slotsRefreshInterval: SLOTS_REFRESH_MS,
  ...options,
  lazyConnect: true,
  keyPrefix: undefined,
  scaleReads: 'master',
  enableOfflineQueue: false,
  enableAutoPipelining: false,
  // A command that lost its node fails at once.
  retryDelayOnFailover: 0,
  clusterRetryStrategy: reconnectDelayMs,
  clusterNodeRetryStrategy: undefined,
  redisOptions: { connectTimeout: CONNECT_TIMEOUT_MS, ...redisOptions, ...WITHOUT_QUEUE },
});

/**
 * Replaces the socket of a connection of ours, or of a connection to one of its cluster nodes, each time it is not ready in
 * time, and reopens the connection when it has ended. Returns a function that stops this. ioredis has no deadline for a server
 * that accepts a connection and stays silent.
 */
export function supervise(client: Ioredis, clock: Clock): () => void {
  const stops = [superviseOne(client, clock), reopen(client, clock)];
  if (isCluster(client)) stops.push(attachToNodes(client, (node) => superviseOne(node, clock)));
  return () => {
    for (const stop of stops) stop();
  };
}

/** ioredis ends a connection for good when it is disconnected while it looks for a master. */
function reopen(client: Ioredis, clock: Clock): () => void {
  let ends = 0;
  let cancel = (): void => undefined;
  const connect = (): void => {
    if (client.status === 'end') client.connect().catch(() => undefined);
  };
  const onReady = (): void => void (ends = 0);
  const onEnd = (): void => {
    if (!endsForGood(client)) cancel = clock.setTimer(connect, reconnectDelayMs((ends += 1)));
  };
  client.on('ready', onReady);
  client.on('end', onEnd);
  return () => {
    cancel();
    client.off('ready', onReady);
    client.off('end', onEnd);
  };
}

function superviseOne(client: Ioredis, clock: Clock): () => void {
  let cancel = (): void => undefined;
  const arm = (ms: number): void => {
    cancel();
    // A connection that ioredis does not reopen ends here, and is replaced by a new one.
    cancel = setDeadline(clock, () => client.disconnect(true), ms);
  };
  const onConnecting = (): void => {
    // A cluster, and the search for a master by sentinels, take a step per node, and each step has its own limit.
    if (!isCluster(client) && !client.options.sentinels) arm(connectMs(client) + GREETING_MS);
  };
  const onConnect = (): void => arm(isCluster(client) ? 2 * GREETING_MS : GREETING_MS);
  const disarm = (): void => cancel();
  const listeners = { connecting: onConnecting, connect: onConnect, ready: disarm, close: disarm, end: disarm };
  for (const [event, listener] of Object.entries(listeners)) client.on(event, listener);
  if (client.status === 'connecting') onConnecting();
  if (client.status === 'connect') onConnect();
  return () => {
    cancel();
    for (const [event, listener] of Object.entries(listeners)) client.off(event, listener);
  };
}

const connectMs = ({ options }: Redis): number => options.connectTimeout || IOREDIS_CONNECT_TIMEOUT_MS;

const isCluster = (client: Ioredis): client is Cluster => client.isCluster;

/** Attaches something to each present and future connection to a node; returns a function that detaches it from all. */
export function attachToNodes(cluster: Cluster, attach: (node: Redis) => () => void): () => void {
  const attached = new Map<Redis, () => void>();
  const onNode = (node: Redis): void => {
    if (!attached.has(node)) attached.set(node, attach(node));
  };
  const onNodeGone = (node: Redis): void => {
    attached.get(node)?.();
    attached.delete(node);
  };
  for (const node of cluster.nodes()) onNode(node);
  cluster.on('+node', onNode);
  cluster.on('-node', onNodeGone);
  return () => {
    cluster.off('+node', onNode);
    cluster.off('-node', onNodeGone);
    for (const node of attached.keys()) onNodeGone(node);
  };
}

/** Closes a connection of ours; resolves when its sockets have ended, or after a short limit. */
export async function closeConnection(client: Ioredis, timers: Timers): Promise<void> {
  if (client.status === 'end') return;
  if (client.status === 'wait') return client.disconnect(false);
  if (!isCluster(client) && client.status === 'reconnecting') {
    client.disconnect(false);
    // ioredis has set a timer to destroy its last socket, which has ended already.
    return new Promise((resolve) => void timers.setTimer(resolve, DISCONNECT_TIMEOUT_MS));
  }
  // A cluster ends before the connections to its nodes do.
  const nodes = isCluster(client) ? client.nodes().filter(({ status }) => status !== 'wait' && status !== 'end') : [];
  const ends = [client, ...nodes].map((one) => new Promise<void>((resolve) => one.once('end', resolve)));
  let cancel = (): void => undefined;
  const limit = new Promise<void>((resolve) => (cancel = timers.setTimer(resolve, CLOSE_TIMEOUT_MS)));
  client.disconnect(false);
  await Promise.race([Promise.all(ends), limit]);
  cancel();
}

/** The sentinels of a client, with the options that ioredis takes for them. */
export function sentinelGroupOf(client: Redis, timers: Timers): SentinelGroup {
  const { options } = client;
  return {
    name: options.name!,
    sentinels: options.sentinels!.map(({ host = '127.0.0.1', port = 26_379 }) => ({ host, port })),
    isOpenToOthers: options.updateSentinels !== false,
    reachedBy: (address) => reachedBy(address, options.natMap),
    open: (sentinel, isNamed) => connectionBy(openSentinel(client, sentinel, retryStrategyOf(isNamed)), timers),
  };
}

function connectionBy(sentinel: Redis, timers: Timers): SentinelConnection {
  return {
    get isReady() {
      return sentinel.status === 'ready';
    },
    onError: (listener) => void sentinel.on('error', listener),
    onReady: (listener) => void sentinel.on('ready', listener),
    onClosed: (listener) => void sentinel.on('close', listener),
    onEnded: (listener) => void sentinel.once('end', listener),
    onMessage: (listener) => void sentinel.on('message', listener),
    command: (name, ...words) => sentinel.call(name, ...words),
    subscribe: (...channels) => sentinel.subscribe(...channels),
    ping: () => sentinel.ping(),
    reconnect: () => sentinel.disconnect(true),
    close: () => closeConnection(sentinel, timers),
  };
}

type RetryStrategy = (times: number) => number | null;

const retryStrategyOf = (isNamed: boolean): RetryStrategy =>
  isNamed ? reconnectDelayMs : (times) => (times > MAX_SENTINEL_RETRIES ? null : reconnectDelayMs(times));

/** What a client may have chosen for its commands, or to reach the master, and what a sentinel does not know. */
const NOT_FOR_SENTINELS: RedisOptions = {
  sentinels: undefined,
  path: undefined,
  Connector: undefined,
  db: 0,
  readOnly: false,
  keyPrefix: undefined,
  connectionName: undefined,
  socketTimeout: undefined,
  stringNumbers: false,
  protocol: 2,
  replyMapping: undefined,
  himportFieldsets: undefined,
};

/**
 * Opens a connection to a sentinel, with the options that ioredis takes for the sentinels of such a client. A duplicate is of
 * the same library and copy as the client.
 */
function openSentinel(client: Redis, sentinel: ServerAddress, retryStrategy: RetryStrategy): Redis {
  const { options } = client;
  return client.duplicate({
    ...NOT_FOR_SENTINELS,
    ...sentinel,
    ...WITHOUT_QUEUE,
    username: options.sentinelUsername,
    password: options.sentinelPassword,
    tls: options.sentinelTLS,
    connectTimeout: options.connectTimeout ?? CONNECT_TIMEOUT_MS,
    commandTimeout: options.sentinelCommandTimeout ?? SENTINEL_COMMAND_TIMEOUT_MS,
    retryStrategy,
    enableReadyCheck: false,
    autoResubscribe: false,
    lazyConnect: false,
  });
}

/** The class that ioredis makes the connector of each of our own connections from. */
export const connectorTo = (sentinels: () => Sentinels, timers: Timers): NonNullable<RedisOptions['Connector']> =>
  class extends MasterConnector {
    constructor(options: unknown) {
      super(options as RedisOptions, sentinels, timers);
    }
  } as never;

/**
 * Connects to the master that the sentinels agree on. That of ioredis takes the word of the sentinel whose turn it is, and may
 * connect to an old master which that sentinel still names.
 */
export class MasterConnector {
  #search = new AbortController();
  #master: ServerAddress | null = null;
  #stream: Redis['stream'] | undefined;
  firstError: Error | undefined;

  constructor(
    private readonly options: RedisOptions,
    private readonly sentinels: () => Sentinels,
    private readonly timers: Timers,
  ) {}

  async connect(emit: (type: string, error: Error) => void): Promise<Redis['stream']> {
    return this.#open(await this.find(emit));
  }

  /** A failed search ends the connection, so it goes on until there is a master, or nobody wants one any more. */
  async find(emit: (type: string, error: Error) => void): Promise<ServerAddress> {
    const { signal } = (this.#search = new AbortController());
    for (let failures = 1; ; failures += 1) {
      try {
        const master = (this.#master = await this.sentinels().master(signal));
        if (signal.aborted) break;
        return master;
      } catch (error) {
        if (signal.aborted) break;
        emit('error', error as Error);
        await pause(reconnectDelayMs(failures), signal, this.timers);
      }
    }
    throw new Error('Connection is closed.');
  }

  check({ role }: { readonly role?: string }): boolean {
    if (role !== 'slave') return true;
    this.sentinels().refute(this.#master!);
    return false;
  }

  disconnect(): void {
    this.#search.abort();
    const stream = this.#stream;
    if (!stream || stream.destroyed) return;
    const cancel = this.timers.setTimer(
      () => stream.destroy(),
      this.options.disconnectTimeout ?? DISCONNECT_TIMEOUT_MS,
    );
    stream.once('close', cancel);
    stream.end();
  }

  #open(master: ServerAddress): Redis['stream'] {
    const { enableTLSForSentinelMode, tls } = this.options;
    const stream = enableTLSForSentinelMode && tls ? connect({ ...master, ...tls }) : createConnection(master);
    stream.once('error', (error) => (this.firstError = error));
    return (this.#stream = stream);
  }
}

/** Ends early when nobody wants a master any more. */
const pause = (ms: number, signal: AbortSignal, timers: Timers): Promise<void> =>
  new Promise((resolve) => {
    const end = (): void => {
      cancel();
      signal.removeEventListener('abort', end);
      resolve();
    };
    const cancel = timers.setTimer(end, ms);
    signal.addEventListener('abort', end);
  });
