import {
  chosenMs,
  CONNECT_TIMEOUT_MS,
  MAX_REDIRECTS,
  NODE_INFO_TIMEOUT_MS,
  reconnectDelayMs,
  SLOTS_REFRESH_MS,
  SLOTS_RETRY_MS,
} from '../timing.js';
import { ofServer, readRedirect } from '../connection/redis-errors.js';
import { slotOf } from './cluster-slots.js';
import {
  BaseClient,
  type ClientParts,
  type ConnectionPlan,
  inTime,
  type Operands,
  type Session,
  SingleClient,
  unsentError,
} from './redis-client.js';
import { type RedisNatMap } from './redis-connection.js';
import { addressText, namedBy, reachedBy, type ServerAddress } from './server-address.js';

/** The master of some slots, and its replicas, by the addresses that they announce. */
interface Shard {
  readonly from: number;
  readonly to: number;
  readonly master: ServerAddress;
  readonly replicas: readonly ServerAddress[];
}

/** Reads the answer to CLUSTER SLOTS of the node that was `asked`. */
function readShards(answer: unknown, asked: ServerAddress): Shard[] {
  const shards = listOf(answer).map((shard): Shard => {
    const [from, to, master, ...replicas] = listOf(shard);
    if (!isSlot(from) || !isSlot(to)) throw malformed();
    return { from, to, master: readNode(master, asked), replicas: replicas.map((node) => readNode(node, asked)) };
  });
  if (shards.length === 0) throw new Error('CLUSTERDOWN the node has no slots');
  return shards;
}

function readNode(node: unknown, asked: ServerAddress): ServerAddress {
  const [host, port] = listOf(node);
  if ((host !== null && typeof host !== 'string') || !Number.isSafeInteger(port)) throw malformed();
  return { host: namedBy(asked, host), port: port as number };
}

function listOf(value: unknown): readonly unknown[] {
  if (!Array.isArray(value)) throw malformed();
  return value;
}

const isSlot = (value: unknown): value is number =>
  Number.isSafeInteger(value) && (value as number) >= 0 && (value as number) < 16_384;

const malformed = (): Error => new Error('the answer to CLUSTER SLOTS is not a list of slots');

/** How a cluster is reached. */
export interface ClusterPlan {
  /** Some of its nodes. */
  readonly seeds: () => Promise<readonly ServerAddress[]>;
  readonly refreshMs?: number | undefined;
  /** How a node is reached. */
  readonly node: (at: ServerAddress) => ConnectionPlan;
  readonly natMap?: RedisNatMap | undefined;
}

interface Node {
  readonly at: ServerAddress;
  readonly connection: SingleClient;
  isMaster: boolean;
  /** Whether a command was redirected there since the last refresh while its slot moves: the answer lacks a node without slots. */
  isAsked: boolean;
}

type Attach = (node: SingleClient) => () => void;

/**
 * A cluster over our connections. The cluster clients of the libraries queue commands, resend them and hide which node has
 * them, so only their options are used.
 */
export class ClusterClient extends BaseClient {
  readonly isCluster = true;
  readonly endsForGood = false;
  readonly #nodes = new Map<string, Node>();
  /** The master of each slot. */
  readonly #masters: (ServerAddress | undefined)[] = [];
  /** What is attached to each node, and the functions that detach it. */
  readonly #attached = new Map<Attach, Map<SingleClient, () => void>>();
  /** The subscriber connections, each with the address of its node. */
  readonly #subscribers = new Map<SingleClient, string>();
  /** The pending query for the slots. */
  #refresh: Promise<void> | null = null;
  #isRefreshDue = false;
  /** How many queries in a row had no answer. */
  #unanswered = 0;
  #over = new AbortController();
  #cancelRefresh = (): void => undefined;

  constructor(
    private readonly plan: ClusterPlan,
    parts: ClientParts,
  ) {
    super(parts);
  }

  get isWritable(): boolean {
    return this.status === 'ready';
  }

  get streams(): readonly Session['stream'][] {
    return this.nodes('all').flatMap(({ streams }) => streams);
  }

  reconnect(): void {
    if (this.status !== 'ready') return;
    for (const node of this.nodes('all')) node.reconnect();
    this.lose(undefined);
  }

  watchMaster(): null {
    return null;
  }

  nodes(role: 'master' | 'all'): readonly SingleClient[] {
    const nodes = [...this.#nodes.values()].filter(({ isMaster }) => role === 'all' || isMaster);
    return nodes.map(({ connection }) => connection);
  }

  /** The connection to the master that serves a storage key, if it is known. */
  masterOf(storageKey: string): SingleClient | undefined {
    return this.#nodeAt(this.masterAddressOf(storageKey));
  }

  /** The address of that master, to which there may be no connection. */
  masterAddressOf(storageKey: string): ServerAddress | undefined {
    return this.#masters[slotOf(storageKey)];
  }

  /** Translates the address that servers announce to the one by which this process reaches the server. */
  reachedBy(address: ServerAddress): ServerAddress {
    return reachedBy(address, this.plan.natMap);
  }

  /** Opens a connection to a node, known or not; it ends when the node is gone. Null while no node has been discovered. */
  openNode(address: ServerAddress): SingleClient | null {
    if (this.#nodes.size === 0) return null;
    return SingleClient.opened({ ...this.plan.node(address), endsForGood: true }, this.parts);
  }

  /** A node of a cluster receives what is published at any of them. One that left the cluster may stay up, but receives no more. */
  openSubscriber(): SingleClient | null {
    const nodes = [...this.#nodes.values()];
    const node = nodes[Math.floor(this.parts.random.fraction() * nodes.length)];
    if (!node) return null;
    const subscriber = this.openNode(node.at)!;
    this.#subscribers.set(subscriber, addressText(node.at));
    subscriber.once('ended', () => this.#subscribers.delete(subscriber));
    return subscriber;
  }

  /** Attaches something to each present and future connection to a node; the returned function detaches it from all. */
  attachToNodes(attach: Attach): () => void {
    const places = new Map<SingleClient, () => void>();
    this.#attached.set(attach, places);
    for (const node of this.nodes('all')) places.set(node, attach(node));
    return () => {
      this.#attached.delete(attach);
      for (const detach of places.values()) detach();
    };
  }

  /** Asks the cluster which node serves which slot, and calls back when that is over. */
  refreshSlots(onDone: () => void): void {
    void this.#refreshOnce().then(onDone);
  }

  protected override open(): void {
    // A question that is still under way must end with the cluster.
    if (this.#over.signal.aborted) this.#over = new AbortController();
    void this.#refreshOnce();
  }

  protected override drop(): Promise<unknown> {
    this.#cancelRefresh();
    this.#over.abort();
    this.#refresh = null;
    return Promise.all([...this.#nodes.keys()].map((name) => this.#remove(name)));
  }

  /** Sends a script. Follows redirections: the view of the slots may be outdated, or the slot may be moving. */
  protected override async send(words: Operands): Promise<unknown> {
    // EVALSHA, the hash, the number of keys, and the first of them.
    const slot = slotOf(String(words[3] ?? ''));
    let at = this.#masters[slot];
    let asking = false;
    for (let redirects = 0; ; redirects++) {
      const node = this.#nodeAt(at);
      if (!node) throw unsentError();
      try {
        if (asking) node.asking();
        return await node.send(words);
      } catch (error) {
        const redirect = readRedirect(error, at!);
        // A node that has lost contact to the others reports it, while they may have another master for its slots.
        if ((error as Error).message.startsWith('CLUSTERDOWN')) this.#refreshSoon();
        if (!redirect || redirects === MAX_REDIRECTS || this.status === 'ended') throw error;
        at = this.reachedBy(redirect.address);
        asking = redirect.isAsk;
        if (!asking) this.#masters[slot] = at;
        this.#add(at, true);
        this.#nodes.get(addressText(at))!.isAsked ||= asking;
        this.#refreshSoon();
      }
    }
  }

  #nodeAt(at: ServerAddress | undefined): SingleClient | undefined {
    return at && this.#nodes.get(addressText(at))?.connection;
  }

  /** Adds a node, and connects to it if it is a master; returns its name. */
  #add(at: ServerAddress, isMaster: boolean): string {
    const name = addressText(at);
    let node = this.#nodes.get(name);
    if (!node) {
      const connection = new SingleClient(this.plan.node(at), this.parts);
      // The slots of a removed node may have another master.
      connection.on('closed', () => this.#refreshSoon());
      node = { at, connection, isMaster, isAsked: false };
      this.#nodes.set(name, node);
      for (const [attach, places] of this.#attached) places.set(connection, attach(connection));
    }
    node.isMaster = isMaster;
    if (isMaster && node.connection.status === 'idle') node.connection.connect().catch(() => undefined);
    return name;
  }

  #remove(name: string): Promise<void> {
    const { connection } = this.#nodes.get(name)!;
    this.#nodes.delete(name);
    const closing = connection.close();
    for (const places of this.#attached.values()) {
      places.get(connection)?.();
      places.delete(connection);
    }
    return closing;
  }

  // The slots

  #refreshOnce(): Promise<void> {
    if (this.status === 'idle' || this.status === 'ended') return Promise.resolve();
    if (this.#refresh) return this.#refresh;
    const refresh = this.#refreshNow(this.#over.signal).finally(() => {
      if (this.#refresh === refresh) this.#refresh = null;
    });
    return (this.#refresh = refresh);
  }

  async #refreshNow(signal: AbortSignal): Promise<void> {
    this.#isRefreshDue = false;
    try {
      const shards = await this.#askForSlots(signal);
      if (signal.aborted) return;
      this.#unanswered = 0;
      this.#update(shards);
      // 0 disables the refreshes of ioredis; as a delay, it would query without a pause.
      this.#refreshIn(chosenMs(this.plan.refreshMs, SLOTS_REFRESH_MS));
      if (this.status === 'ready') return;
      this.become('connected');
      this.become('ready');
    } catch (error) {
      if (!signal.aborted) this.#onUnanswered(error as Error);
    }
  }

  /**
   * Asks one node after the other, without waiting long for one that hangs. Resolves with the first answer, or rejects with the
   * last error. The order is random, because a node that has lost the others still answers as if nothing had happened. The nodes
   * that the application named may be the ones that do not respond.
   */
  async #askForSlots(signal: AbortSignal): Promise<Shard[]> {
    const { clock, random } = this.parts;
    const seeds = await this.#findSeeds();
    signal.throwIfAborted();
    const known = [...[...this.#nodes.values()].map(({ at }) => at), ...seeds];
    const order = [...new Map(known.map((at) => [addressText(at), at])).values()].map((at) => ({
      at,
      rank: random.fraction(),
    }));
    const candidates = order.toSorted((a, b) => a.rank - b.rank).map(({ at }) => at);
    const opened = new Set<SingleClient>();
    let cancelPatience = (): void => undefined;
    let cancelAll = (): void => undefined;
    let pending = 0;
    let isOver = false;
    let lastError = new Error('no address is known');
    const answer = new Promise<Shard[]>((resolve, reject) => {
      cancelAll = () => reject(new Error('the connection was closed'));
      signal.addEventListener('abort', cancelAll);
      const askNext = (): void => {
        const at = candidates.shift();
        if (!at) return void (pending === 0 && reject(lastError));
        pending += 1;
        cancelPatience();
        cancelPatience = clock.setTimer(askNext, NODE_INFO_TIMEOUT_MS);
        this.#askNode(at, opened).then(resolve, (error: Error) => {
          if (isOver) return;
          pending -= 1;
          lastError = ofServer(error, addressText(at));
          askNext();
        });
        return undefined;
      };
      askNext();
    });
    return answer.finally(() => {
      isOver = true;
      cancelPatience();
      signal.removeEventListener('abort', cancelAll);
      for (const connection of opened) connection.disconnect();
    });
  }

  /** DNS may be down, or stay silent: the nodes that are known are asked without it. */
  async #findSeeds(): Promise<readonly ServerAddress[]> {
    try {
      return await inTime(this.plan.seeds(), CONNECT_TIMEOUT_MS, this.parts.clock);
    } catch (error) {
      if (this.#nodes.size === 0) throw error;
      return [];
    }
  }

  async #askNode(at: ServerAddress, opened: Set<SingleClient>): Promise<Shard[]> {
    let node = this.#nodeAt(at);
    if (!node?.isWritable) {
      node = new SingleClient({ ...this.plan.node(at), endsForGood: true }, this.parts);
      opened.add(node);
      await node.connect();
    }
    return readShards(await inTime(node.send(['cluster', 'slots']), NODE_INFO_TIMEOUT_MS, this.parts.clock), at);
  }

  /** Applies the answer of a node: connects to masters, and disconnects from removed nodes. */
  #update(answer: readonly Shard[]): void {
    // A `natMap` that fails leaves what is known as it is.
    const shards = answer.map(({ master, replicas, ...slots }) => ({
      ...slots,
      master: this.reachedBy(master),
      replicas: replicas.map((node) => this.reachedBy(node)),
    }));
    const gone = new Set(this.#nodes.keys());
    this.#masters.length = 0;
    for (const { from, to, master, replicas } of shards) {
      this.#masters.length = Math.max(this.#masters.length, to + 1);
      this.#masters.fill(master, from, to + 1);
      gone.delete(this.#add(master, true));
      for (const replica of replicas) gone.delete(this.#add(replica, false));
    }
    for (const [name, node] of this.#nodes) {
      if (gone.has(name) && !node.isAsked) void this.#remove(name);
      node.isAsked = false;
    }
    for (const [subscriber, at] of this.#subscribers) if (!this.#nodes.has(at)) subscriber.disconnect();
  }

  /** The slots are unknown: commands use the existing connections, and nodes report whether a slot has moved. */
  #onUnanswered(error: Error): void {
    if (this.status !== 'ready' || !this.nodes('all').some((node) => node.isWritable)) return this.lose(error);
    this.#unanswered += 1;
    this.#refreshIn(reconnectDelayMs(this.#unanswered));
  }

  #refreshSoon(): void {
    if (this.status !== 'ready' || this.#isRefreshDue) return;
    this.#refreshIn(SLOTS_RETRY_MS);
    this.#isRefreshDue = true;
  }

  #refreshIn(delayMs: number): void {
    this.#cancelRefresh();
    this.#isRefreshDue = false;
    this.#cancelRefresh = this.parts.clock.setTimer(() => void this.#refreshOnce(), delayMs);
  }
}

export type RedisClient = SingleClient | ClusterClient;
