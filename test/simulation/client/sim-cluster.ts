import { EventEmitter } from 'node:events';
import { type ClusterOptions, type RedisOptions } from 'ioredis';
import { keyOf, type NodeAddress, SimPool } from './sim-pool.js';
import { SimRedis } from './sim-redis.js';
import { type Item } from './redis-commands.js';
import { slotOf } from '../../../lib/redis/client/cluster-slots.js';
import { type Network } from '../network/network.js';
import { type SimProcess } from '../world/sim-process.js';
import { clusterOptionsOf, type SimClusterOptions } from './options.js';

type Callback = (error?: Error) => void;
type Range = readonly [first: number, last: number, ...nodes: (readonly [host: string, port: number])[]];

/** Asks one node after the other which node serves which slot, as ioredis 6 does: by a new connection each time. */
class SlotsQuestion {
  static readonly allFailed = 'Failed to refresh slots cache.';
  #isAsking = false;
  #callbacks: Callback[] = [];

  constructor(private readonly cluster: SimCluster) {}

  ask(callback?: Callback): void {
    if (callback) this.#callbacks.push(callback);
    if (this.#isAsking) return;
    this.#isAsking = true;
    this.#askNext(this.cluster.shuffled(this.cluster.pool.nodes('all')), null);
  }

  #askNext([node, ...others]: readonly SimRedis[], lastNodeError: Error | null): void {
    const { cluster } = this;
    if (!node) return this.#end(Object.assign(new Error(SlotsQuestion.allFailed), { lastNodeError }));
    this.#askNode(node, (error) => {
      const { status } = cluster;
      if (status === 'close' || status === 'end') return this.#end(new Error('Cluster is disconnected.'));
      if (status === 'disconnecting') return this.#end(new Error('Cluster is disconnecting.'));
      if (!error) {
        cluster.emit('refresh');
        return this.#end();
      }
      cluster.emit('node error', error, keyOf(node.options));
      return this.#askNext(others, error);
    });
    return undefined;
  }

  #end(error?: Error): void {
    this.#isAsking = false;
    const callbacks = this.#callbacks;
    for (const callback of callbacks) callback(error);
    this.#callbacks = [];
  }

  #askNode(node: SimRedis, callback: Callback): void {
    const { cluster } = this;
    const { slotsRefreshTimeout } = cluster.options;
    const asking = cluster.openNode({
      ...node.options,
      enableOfflineQueue: true,
      enableReadyCheck: false,
      retryStrategy: null,
      lazyConnect: false,
    });
    asking.on('error', () => undefined);
    let isOver = false;
    const settle = (error: Error | null, ranges: readonly Range[]): void => {
      if (isOver) return;
      isOver = true;
      cancel();
      asking.disconnect();
      if (error) return callback(error);
      if (!['disconnecting', 'close', 'end'].includes(cluster.status)) this.#apply(ranges);
      return callback();
    };
    const cancel = cluster.process.clock.setTimer(() => settle(new Error('timeout'), []), slotsRefreshTimeout);
    asking.call('cluster', 'SLOTS').then(
      (ranges) => settle(null, ranges as Range[]),
      (error: Error) => settle(error, []),
    );
  }

  #apply(ranges: readonly Range[]): void {
    const all: NodeAddress[] = [];
    for (const [first, last, ...nodes] of ranges) {
      const found = nodes.map(([host, port], i) => ({ host, port, readOnly: i > 0 }));
      all.push(...found);
      const keys = found.map(keyOf);
      for (let slot = first; slot <= last; slot += 1) this.cluster.slots[slot] = keys;
    }
    this.cluster.pool.reset(all);
  }
}

/** A command that follows the redirections of the nodes. */
interface RoutedItem extends Item {
  slot: number | undefined;
}

type Send = (item: RoutedItem, how?: { random?: boolean; asking?: string }) => void;

/** What a cluster client of ioredis 6 does with the errors of its nodes (`handleError` in built/cluster/index.js). */
class ClusterRedirects {
  readonly #sentBy = new WeakMap<Item, SimRedis>();
  /** Commands that are sent again together, by the reason. */
  readonly #delayed = new Map<string, (() => void)[]>();

  constructor(
    private readonly client: SimCluster,
    private readonly send: Send,
  ) {}

  follow({ name, args, resolve, reject }: Item, slot: number | undefined): RoutedItem {
    let left: number | undefined;
    const item: RoutedItem = {
      name,
      args,
      slot,
      resolve,
      reject: (error) => {
        left = left === undefined ? this.client.options.maxRedirections : left - 1;
        if (left <= 0) return reject(new Error(`Too many Cluster redirections. Last error: ${String(error)}`));
        if (!this.#handle(item, error)) reject(error);
        return undefined;
      },
    };
    return item;
  }

  onSent(item: Item, redis: SimRedis): void {
    this.#sentBy.set(item, redis);
  }

  /** Returns whether the command is sent again. */
  #handle(item: RoutedItem, { message }: Error): boolean {
    const { options, status } = this.client;
    const [kind, slot, address] = message.split(' ');
    const again = (): void => this.send(item, { random: true });
    const refresh = (run: () => void): void => this.client.refreshSlotsCache(run);
    if (kind === 'MOVED') {
      const moved = (): void => this.#onMoved(item, Number(slot), address!);
      if (options.retryDelayOnMoved) this.#later('moved', moved, options.retryDelayOnMoved);
      else moved();
    } else if (kind === 'ASK') {
      this.client.pool.findOrCreate(nodeAt(address!));
      this.send(item, { asking: address! });
    } else if (kind === 'TRYAGAIN') this.#later('tryagain', again, options.retryDelayOnTryAgain);
    else if (kind === 'CLUSTERDOWN' && options.retryDelayOnClusterDown > 0) {
      this.#later('clusterdown', again, options.retryDelayOnClusterDown, refresh);
    } else if (message === 'Connection is closed.' && options.retryDelayOnFailover > 0 && status === 'ready') {
      this.#later('failover', again, options.retryDelayOnFailover, refresh);
    } else return false;
    return true;
  }

  #onMoved(item: RoutedItem, slot: number, address: string): void {
    const { client } = this;
    item.slot = slot;
    if (client.slots[slot]) client.slots[slot][0] = address;
    else client.slots[slot] = [address];
    const last = this.#sentBy.get(item);
    if (last && keyOf(last.options) === address && client.pool.at(address) === last) {
      client.pool.recreate(nodeAt(address));
    } else client.pool.findOrCreate(nodeAt(address));
    this.send(item);
    client.refreshSlotsCache();
  }

  #later(
    bucket: string,
    run: () => void,
    delayMs: number,
    before: (then: () => void) => void = (then) => then(),
  ): void {
    const waiting = this.#delayed.get(bucket);
    if (waiting) return void waiting.push(run);
    this.#delayed.set(bucket, [run]);
    const execute = (): void => {
      const runs = this.#delayed.get(bucket) ?? [];
      this.#delayed.delete(bucket);
      for (const one of runs) one();
    };
    this.client.process.clock.setTimer(() => before(execute), delayMs);
    return undefined;
  }
}

function nodeAt(address: string): NodeAddress {
  const colon = address.lastIndexOf(':');
  return { host: address.slice(0, colon), port: Number(address.slice(colon + 1)) };
}

type Status = 'wait' | 'connecting' | 'connect' | 'ready' | 'disconnecting' | 'close' | 'reconnecting' | 'end';

const NO_NODE = 'None of startup nodes is available';
const CLOSED = 'Connection is closed.';

/** Stands for a cluster client of ioredis 6 (built/cluster/index.js). Its own subscriber is never used, and left out. */
export class SimCluster extends EventEmitter {
  readonly isCluster = true;
  status!: Status;
  /** The addresses of the nodes of each slot, the master first. */
  readonly slots: string[][] = [];
  readonly options: SimClusterOptions;
  readonly pool: SimPool;
  readonly process: SimProcess;
  readonly #questions: SlotsQuestion;
  readonly #redirects: ClusterRedirects;
  /** Its own listeners, apart from those of its users. */
  readonly #own = new EventEmitter();
  #offlineQueue: Item[] = [];
  #epoch = 0;
  #retries = 0;
  #isClosing = false;
  #cancelReconnect: (() => void) | null = null;
  #cancelRefresh: (() => void) | null = null;

  /** It belongs to the process whose code runs now. */
  constructor(
    private readonly network: Network,
    readonly startupNodes: readonly NodeAddress[],
    given: ClusterOptions = {},
  ) {
    super();
    this.setMaxListeners(0);
    this.process = network.world.current!;
    this.options = clusterOptionsOf(given);
    const { redisOptions = {}, clusterNodeRetryStrategy = null } = this.options;
    this.pool = new SimPool((options) => this.openNode(options), redisOptions, clusterNodeRetryStrategy);
    for (const event of ['-node', '+node']) this.pool.on(event, (redis) => this.emit(event, redis));
    this.pool.on('drain', () => this.#setStatus('close'));
    this.pool.on('nodeError', (error, key) => this.emit('node error', error, key));
    this.#questions = new SlotsQuestion(this);
    this.#redirects = new ClusterRedirects(this, (item, how) => this.#send(item, how));
    if (given.lazyConnect) this.#setStatus('wait');
    else void this.connect().catch(() => undefined);
  }

  duplicate(nodes: readonly NodeAddress[] = [], changed: ClusterOptions = {}): SimCluster {
    return new SimCluster(this.network, nodes.length > 0 ? nodes : [...this.startupNodes], {
      ...this.options,
      ...changed,
    });
  }

  nodes(role: 'all' | 'master' | 'slave' = 'all'): SimRedis[] {
    return this.pool.nodes(role);
  }

  async connect(): Promise<void> {
    if (['connecting', 'connect', 'ready'].includes(this.status)) {
      throw new Error('Redis is already connecting/connected');
    }
    const epoch = (this.#epoch += 1);
    this.#setStatus('connecting');
    // ioredis resolves the host names first.
    await Promise.resolve();
    if (this.#epoch !== epoch) throw new Error('Connection is discarded because a new connection is made');
    if (this.status !== 'connecting') throw new Error('Connection is aborted');
    this.pool.reset(this.startupNodes);
    return new Promise((resolve, reject) => {
      const onRefresh = (): void => {
        this.#own.off('close', onClose);
        this.#isClosing = false;
        this.#setStatus('connect');
        this.#checkReady(resolve);
      };
      const onClose = (): void => {
        this.#own.off('refresh', onRefresh);
        reject(new Error(NO_NODE));
      };
      this.#own.once('refresh', onRefresh);
      this.#own.once('close', onClose);
      this.#own.once('close', () => this.#onClose());
      this.refreshSlotsCache((error) => {
        if (error?.message !== SlotsQuestion.allFailed) return;
        if (this.listenerCount('error') > 0) this.emit('error', error);
        this.pool.reset([]);
      });
    });
  }

  disconnect(reconnect = false): void {
    const { status } = this;
    this.#setStatus('disconnecting');
    if (!reconnect) {
      this.#isClosing = true;
      this.#cancelReconnect?.();
      this.#cancelReconnect = null;
    }
    this.#cancelRefresh?.();
    this.#cancelRefresh = null;
    if (status === 'wait') {
      this.#setStatus('close');
      this.#onClose();
    } else this.pool.reset([]);
  }

  refreshSlotsCache(callback?: (error?: Error) => void): void {
    this.#questions.ask(callback);
  }

  /** Its own listeners hear of it first. */
  override emit(event: string, ...args: readonly unknown[]): boolean {
    if (event !== 'error') this.#own.emit(event, ...args);
    return super.emit(event, ...args);
  }

  /** How many listeners its users have added. */
  get allListeners(): number {
    return this.eventNames().reduce((sum, name) => sum + this.listenerCount(name), 0);
  }

  evalsha(...args: readonly unknown[]): Promise<unknown> {
    return this.#call('evalsha', args);
  }

  eval(...args: readonly unknown[]): Promise<unknown> {
    return this.#call('eval', args);
  }

  /** Opens a connection for this client. */
  openNode(options: RedisOptions): SimRedis {
    const { world } = this.network;
    const before = world.current;
    world.current = this.process;
    const redis = new SimRedis(this.network, options);
    redis.cluster = this;
    world.current = before;
    return redis;
  }

  shuffled<T>(list: readonly T[]): T[] {
    const draw = (): number => this.process.runtime.random.fraction();
    return list
      .map((one) => ({ one, at: draw() }))
      .sort((a, b) => a.at - b.at)
      .map(({ one }) => one);
  }

  #checkReady(resolve: () => void): void {
    const onReady = (): void => {
      this.#setStatus('ready');
      this.#retries = 0;
      for (const item of this.#offlineQueue.splice(0)) this.#send(item);
      this.#refreshLater();
      resolve();
    };
    const onFailure = (): void => {
      if (this.status === 'connect') this.disconnect(true);
    };
    if (!this.options.enableReadyCheck) return onReady();
    this.#call('cluster', ['INFO']).then(
      (info) => (String(info).includes('cluster_state:fail') ? onFailure() : onReady()),
      onFailure,
    );
  }

  #refreshLater(): void {
    const { slotsRefreshInterval } = this.options;
    if (this.#cancelRefresh || !slotsRefreshInterval) return;
    const next = (): void => {
      this.#cancelRefresh = this.process.clock.setTimer(() => this.refreshSlotsCache(next), slotsRefreshInterval);
    };
    next();
  }

  #onClose(): void {
    const delayMs = this.#isClosing ? null : this.options.clusterRetryStrategy((this.#retries += 1));
    if (typeof delayMs !== 'number') {
      this.#setStatus('end');
      for (const item of this.#offlineQueue.splice(0)) item.reject(new Error(NO_NODE));
      return;
    }
    this.#setStatus('reconnecting');
    this.#cancelReconnect = this.process.clock.setTimer(() => {
      this.#cancelReconnect = null;
      void this.connect().catch(() => undefined);
    }, delayMs);
  }

  #call(name: string, args: readonly unknown[]): Promise<unknown> {
    if (this.status === 'wait') void this.connect().catch(() => undefined);
    return new Promise((resolve, reject) => {
      if (this.status === 'end') return reject(new Error(CLOSED));
      const slot = name === 'cluster' ? undefined : slotOf(String(args[2]));
      this.#send(this.#redirects.follow({ name, args, resolve, reject }, slot));
      return undefined;
    });
  }

  /** `random`: to any node; `asking`: to this one, behind ASKING. */
  #send(item: Item & { slot?: number | undefined }, how: { random?: boolean; asking?: string } = {}): void {
    if (this.status === 'end') return item.reject(new Error('Cluster is ended.'));
    const redis = this.status === 'ready' || item.name === 'cluster' ? this.#nodeFor(item.slot, how) : undefined;
    const { enableOfflineQueue } = this.options;
    if (redis && !enableOfflineQueue && redis.status !== 'ready' && redis.status !== 'wait') {
      return item.reject(new Error(CLOSED));
    }
    if (redis) {
      this.#redirects.onSent(item, redis);
      if (how.asking) redis.call('asking').catch(() => undefined);
      return redis.sendCommand(item);
    }
    if (enableOfflineQueue) this.#offlineQueue.push(item);
    else item.reject(new Error("Cluster isn't ready and enableOfflineQueue options is false"));
    return undefined;
  }

  #nodeFor(slot: number | undefined, { random, asking }: { random?: boolean; asking?: string }): SimRedis | undefined {
    let redis: SimRedis | undefined;
    if (!random && slot !== undefined && this.slots[slot]) redis = this.pool.at(this.slots[slot][0]!);
    if (!random && asking) redis = this.pool.at(asking);
    return redis ?? this.shuffled(this.pool.nodes('master'))[0] ?? this.shuffled(this.pool.nodes('all'))[0];
  }

  #setStatus(status: Status): void {
    this.status = status;
    this.network.world.soon(() => this.emit(status));
  }
}
