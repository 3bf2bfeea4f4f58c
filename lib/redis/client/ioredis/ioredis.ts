import { errorMonitor } from 'node:events';
import type { Cluster, ClusterNode, ClusterOptions, Redis, RedisOptions } from 'ioredis';
import { LockConfigurationError } from '../../../core/lock.errors.js';
import {
  checkDuplicate,
  type ClientLibrary,
  type ClientParts,
  type Clients,
  hasMethod,
  readScan,
  readTime,
  readWait,
  type ServerPlace,
  warnOfKeyPrefix,
} from '../client-library.js';
import { slotOf } from '../cluster-slots.js';
import {
  attachToNodes,
  closeConnection,
  connectorTo,
  endsForGood,
  type Ioredis,
  neverReconnect,
  OWN_OPTIONS,
  ownClusterOptions,
  sentinelGroupOf,
  supervise,
} from './connections.js';
import { loadIoredis, loadIovalkey } from '../optional-peers.cjs';
import { withoutUrl } from '../plain-options.js';
import {
  type ClientEvents,
  type ClientStatus,
  type ClusterClient,
  type LeadsToMaster,
  type MasterWatch,
  type Operands,
  type RedisClient,
  type SingleClient,
} from '../redis-client.js';
import { type RedisAddress, type RedisClusterOptions } from '../redis-connection.js';
import { Sentinels } from '../sentinel-watch.js';
import { isSameAddress, reachedBy, readAddress, type ServerAddress } from '../server-address.js';
import {
  CONNECT_TIMEOUT_MS,
  IOREDIS_CONNECT_TIMEOUT_MS,
  reconnectDelayMs,
  SENTINEL_COMMAND_TIMEOUT_MS,
} from '../../timing.js';

/** The names of ioredis. `errorMonitor` also receives what no listener handles. */
const EVENTS = {
  connecting: 'connecting',
  connected: 'connect',
  ready: 'ready',
  closed: 'close',
  ended: 'end',
  error: errorMonitor,
  message: 'message',
  nodeError: 'node error',
} satisfies Record<keyof ClientEvents, string | symbol>;

const STATUSES: Readonly<Record<string, ClientStatus>> = {
  wait: 'idle',
  connecting: 'connecting',
  connect: 'connected',
  ready: 'ready',
  end: 'ended',
};

/** What the two kinds of clients of ioredis have in common. */
abstract class IoredisBase<Client extends Ioredis> {
  constructor(
    protected readonly client: Client,
    protected readonly owner: IoredisClients,
  ) {}

  /** Of the present connections; undefined while there is none. */
  protected abstract readonly sockets: readonly (Redis['stream'] | undefined)[];

  get status(): ClientStatus {
    return STATUSES[this.client.status] ?? 'closed';
  }

  get endsForGood(): boolean {
    return endsForGood(this.client);
  }

  on<E extends keyof ClientEvents>(event: E, listener: (...args: ClientEvents[E]) => void): () => void {
    return this.#listen('on', event, (...args) => listener(...(argumentsOf(event, args) as ClientEvents[E])));
  }

  once(event: keyof ClientEvents, listener: () => void): () => void {
    return this.#listen('once', event, () => listener());
  }

  connect(): Promise<void> {
    return this.client.connect();
  }

  reconnect(): void {
    this.client.disconnect(true);
  }

  close(): Promise<void> {
    return closeConnection(this.client, this.owner.parts.clock);
  }

  supervise(): () => void {
    return supervise(this.client, this.owner.parts.clock);
  }

  inOneWrite(send: () => void): void {
    // What stands in for ioredis in a test may have no real socket.
    const sockets: readonly (Partial<Redis['stream']> | undefined)[] = this.sockets;
    for (const socket of sockets) socket?.cork?.();
    try {
      send();
    } finally {
      for (const socket of sockets) socket?.uncork?.();
    }
  }

  evaluateSha(sha1: string, operands: Operands): Promise<unknown> {
    return this.client.evalsha(sha1, ...(operands as [number, ...Operands]));
  }

  evaluate(text: string, operands: Operands): Promise<unknown> {
    return this.client.eval(text, ...(operands as [number, ...Operands]));
  }

  #listen(method: 'on' | 'once', event: keyof ClientEvents, listener: (...args: unknown[]) => void): () => void {
    const emitter: NodeJS.EventEmitter = this.client;
    emitter[method](EVENTS[event], listener);
    return () => void emitter.off(EVENTS[event], listener);
  }
}

/** ioredis passes the error of a node before its address. */
const argumentsOf = (event: keyof ClientEvents, args: readonly unknown[]): readonly unknown[] =>
  event === 'nodeError' ? args.slice(1) : args;

/** One connection of ioredis: to a server, or to the master that sentinels name. */
export class IoredisConnection extends IoredisBase<Redis> implements SingleClient {
  readonly isCluster = false;
  #sentinels: Sentinels | null = null;

  /** `source`: what its duplicates are made from: the client of the application, or itself. */
  constructor(
    client: Redis,
    owner: IoredisClients,
    private readonly source: Redis = client,
  ) {
    super(client, owner);
  }

  get isWritable(): boolean {
    return this.client.status === 'ready' && this.client.stream.writable;
  }

  get address(): string {
    const { host, port, path, sentinels, name } = this.client.options;
    if (!sentinels) return path ?? `${host}:${port}`;
    return `sentinel ${name} of ${sentinels[0]?.host}:${sentinels[0]?.port ?? 26379}`;
  }

  get database(): number {
    return this.client.options.db ?? 0;
  }

  get peer(): ServerAddress | null {
    const { remoteAddress, remotePort } = this.client.stream ?? {};
    if (remotePort === undefined) return null;
    return { host: (remoteAddress ?? '').replace(/^::ffff:/, ''), port: remotePort };
  }

  /** Those of a connection by sentinels. */
  get sentinels(): Sentinels {
    const { parts } = this.owner;
    return (this.#sentinels ??= new Sentinels(sentinelGroupOf(this.client, parts.clock), parts));
  }

  protected get sockets() {
    return [this.client.stream];
  }

  duplicate(): SingleClient {
    const { db, Connector } = this.client.options;
    return this.owner.duplicateOf(this.source, { db, Connector, lazyConnect: false });
  }

  /** Opens one more connection to a node of a cluster; it ends when that node is gone. */
  duplicateNode(more: RedisOptions = {}): IoredisConnection {
    const copy = this.client.duplicate({
      ...OWN_OPTIONS,
      lazyConnect: false,
      retryStrategy: neverReconnect,
      ...more,
    });
    return this.owner.ofOwn(copy);
  }

  openSubscriber(): SingleClient {
    return this.duplicate();
  }

  watchMaster(onMaster: (leadsToMaster: LeadsToMaster) => void): MasterWatch | null {
    if (!this.client.options.sentinels) return null;
    const watch = this.sentinels.watch(onMaster);
    // With a `Connector` of the application, the sentinel that comes first decides where it connects.
    const stop = this.on('connected', () => watch.repeat());
    const close = (): Promise<void> => {
      stop();
      return watch.close();
    };
    return { close };
  }

  disconnect(): void {
    this.client.disconnect(false);
  }

  /** ioredis sends it, too, and takes the connection as ready when it is refused. */
  async select(): Promise<void> {
    await this.client.select(this.database);
  }

  asking(): void {
    // It is valid for the next command only, which reports a refusal.
    this.client.asking().catch(() => undefined);
  }

  info(section?: 'server'): Promise<string> {
    return section ? this.client.info(section) : this.client.info();
  }

  call([name, ...words]: readonly [string, ...string[]]): Promise<unknown> {
    return this.client.call(name, ...words);
  }

  async time(): Promise<number> {
    return readTime(await this.client.time());
  }

  async scan(cursor: string, pattern: string, count: number): Promise<[cursor: string, keys: string[]]> {
    return readScan(await this.client.scan(cursor, 'MATCH', pattern, 'COUNT', count));
  }

  async wait(replicas: number, timeoutMs: number): Promise<number> {
    return readWait(await this.client.wait(replicas, timeoutMs));
  }

  async subscribe(channel: string): Promise<void> {
    await this.client.subscribe(channel);
  }
}

/** A cluster client of ioredis. */
export class IoredisCluster extends IoredisBase<Cluster> implements ClusterClient {
  readonly isCluster = true;

  /** ioredis leaves out nodes without a host, and closes without an error when none is left. */
  override on<E extends keyof ClientEvents>(event: E, listener: (...args: ClientEvents[E]) => void): () => void {
    const stop = super.on(event, listener);
    if (event !== 'error') return stop;
    const stopFollowing = super.on('closed', () => {
      if (this.#namesNoHosts) (listener as (error: Error) => void)(missingHosts());
    });
    return () => {
      stop();
      stopFollowing();
    };
  }

  get isWritable(): boolean {
    return this.client.status === 'ready';
  }

  protected get sockets() {
    return this.client.nodes('all').map(({ stream }) => stream);
  }

  duplicate(): ClusterClient {
    return this.owner.duplicateCluster(this.client, { lazyConnect: false });
  }

  watchMaster(): null {
    return null;
  }

  /**
   * A node of a cluster hears what is published at any of them. When that node is gone, the connection ends, and another one
   * has to be chosen.
   */
  openSubscriber(): SingleClient | null {
    const nodes = this.client.nodes('all');
    const node = nodes[Math.floor(this.owner.parts.random.fraction() * nodes.length)];
    if (!node) return null;
    const subscriber = this.owner.of(node).duplicateNode();
    // A node that left the cluster may stay up, but no messages of the cluster reach it.
    const leaveIfForeign = (): void => {
      if (!this.#nodeAt('all', node.options)) subscriber.disconnect();
    };
    this.client.on('refresh', leaveIfForeign);
    subscriber.once('ended', () => this.client.off('refresh', leaveIfForeign));
    return subscriber;
  }

  nodes(role: 'master' | 'all'): readonly SingleClient[] {
    return this.client.nodes(role).map((node) => this.owner.of(node));
  }

  masterOf(storageKey: string): SingleClient | undefined {
    const address = this.masterAddressOf(storageKey);
    if (!address) return undefined;
    const master = this.#nodeAt('master', address);
    return master && this.owner.of(master);
  }

  masterAddressOf(storageKey: string): ServerAddress | undefined {
    const announced = this.client.slots[slotOf(storageKey)]?.[0];
    // ioredis does not translate the address that a node names for a slot that has moved.
    return announced === undefined ? undefined : this.reachedBy(readAddress(announced));
  }

  reachedBy(address: ServerAddress): ServerAddress {
    return reachedBy(address, this.client.options.natMap);
  }

  openNode({ host, port }: ServerAddress): SingleClient | null {
    const node = this.#nodeAt('all', { host, port }) ?? this.client.nodes('all')[0];
    return node ? this.owner.of(node).duplicateNode({ host, port }) : null;
  }

  attachToNodes(attach: (node: SingleClient) => () => void): () => void {
    return attachToNodes(this.client, (node) => attach(this.owner.of(node)));
  }

  refreshSlots(onDone: () => void): void {
    this.client.refreshSlotsCache(onDone);
  }

  /** Redis writes `?` for a host name that is missing. */
  get #namesNoHosts(): boolean {
    return this.client.slots.some((nodes) => nodes.length === 0 || nodes[0]!.startsWith('?:'));
  }

  /** The connection to the node at an address; undefined if the cluster has none there. */
  #nodeAt(role: 'master' | 'all', address: Partial<ServerAddress>): Redis | undefined {
    return this.client.nodes(role).find(({ options }) => isSameAddress(options, address));
  }
}

/** As a refusal of the cluster, since a retry does not help. */
const missingHosts = (): Error =>
  Object.assign(new Error('the cluster names its nodes without a host, and ioredis and iovalkey find none of them'), {
    name: 'ReplyError',
  });

type Classes = NonNullable<ReturnType<typeof loadIoredis>>;

const ignore = (): void => undefined;

/** The clients of one store, behind which ioredis works. */
export class IoredisClients implements Clients {
  /** The connections to nodes of clusters. */
  readonly #nodes = new WeakMap<Redis, IoredisConnection>();

  /** `load`: the classes that open a connection. */
  constructor(
    readonly parts: ClientParts,
    private readonly load = loadIoredis,
  ) {}

  /** Returns the client of a connection to a node: always the same one. */
  of(node: Redis): IoredisConnection {
    let known = this.#nodes.get(node);
    if (!known) {
      known = new IoredisConnection(node, this);
      this.#nodes.set(node, known);
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

/** A library with the classes of ioredis. Each takes the clients of the other: it uses what the client itself has. */
const libraryLike = (name: string, load: typeof loadIoredis): ClientLibrary => ({
  name,

  // node-redis has `duplicate`, too, and names the command `evalSha`.
  isClient: (value): value is Ioredis =>
    hasMethod(value, 'evalsha') || (hasMethod(value, 'duplicate') && !hasMethod(value, 'evalSha')),

  methods: ['evalsha', 'eval', 'duplicate', 'connect', 'disconnect', 'on', 'once', 'off'],
  isCluster: (client) => (client as { readonly isCluster?: boolean }).isCluster === true,
  placeOf: (client) => (client as { readonly options?: ServerPlace }).options ?? {},
  // ioredis 4 exports the class alone.
  isInstalled: () => load()?.Redis !== undefined,
  clientsOf: (parts) => new IoredisClients(parts, load),
});

export const ioredisLibrary = libraryLike('ioredis', loadIoredis);
export const iovalkeyLibrary = libraryLike('iovalkey', loadIovalkey);
