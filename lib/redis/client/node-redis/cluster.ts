import { type Clock } from '../../../core/clock.js';
import { type Randomness } from '../../../core/randomness.js';
import { type ClientParts, unsentError } from '../client-library.js';
import { slotOf } from '../cluster-slots.js';
import { type ConnectionPlan, OwnClient, OwnConnection } from './connection.js';
import { type ClusterClient, type SingleClient } from '../redis-client.js';
import { addressText, namedBy, type ServerAddress } from '../server-address.js';
import { readRedirect } from '../../connection/redis-errors.js';
import { MAX_REDIRECTS, NODE_INFO_TIMEOUT_MS, reconnectDelayMs, SLOTS_RETRY_MS } from '../../timing.js';

interface Questions<T, A> {
  readonly candidates: readonly T[];
  /** `stop`: the answer is of no use any more. */
  readonly ask: (candidate: T, stop: AbortSignal) => Promise<A>;
  /** How long one is waited for before the next one is asked, too. */
  readonly patienceMs: number;
  /** How long one may take in all. */
  readonly limitMs: number;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  readonly onFailure: (candidate: T, error: Error) => void;
}

/**
 * Asks one candidate after the other, and does not wait for long for one that hangs: resolves with the first answer, and rejects with
 * the last error when there is none.
 */
async function firstAnswer<T, A>(questions: Questions<T, A>): Promise<A> {
  const over = new AbortController();
  try {
    return await new Promise<A>((resolve, reject) => {
      const fail = (): void => reject(new Error('the connection was closed'));
      questions.signal.addEventListener('abort', fail, { signal: over.signal });
      new Inquiry(questions, over.signal, resolve, reject).askNext();
    });
  } finally {
    over.abort();
  }
}

class Inquiry<T, A> {
  #next = 0;
  #pending = 0;
  #lastError = new Error('no address is known');

  constructor(
    private readonly questions: Questions<T, A>,
    private readonly over: AbortSignal,
    private readonly resolve: (answer: A) => void,
    private readonly reject: (error: Error) => void,
  ) {}

  askNext(): void {
    const { candidates, clock, patienceMs, onFailure } = this.questions;
    if (this.over.aborted) return;
    if (this.#next === candidates.length) {
      if (this.#pending === 0) this.reject(this.#lastError);
      return;
    }
    const candidate = candidates[this.#next]!;
    this.#next += 1;
    this.#pending += 1;
    const cancelPatience = clock.setTimer(() => this.askNext(), patienceMs);
    void this.#ask(candidate).then(this.resolve, (error: Error) => {
      cancelPatience();
      this.#pending -= 1;
      this.#lastError = error;
      if (this.over.aborted) return;
      onFailure(candidate, error);
      this.askNext();
    });
  }

  /** Rejects at the limit, or when another one has answered. */
  async #ask(candidate: T): Promise<A> {
    const { ask, clock, limitMs } = this.questions;
    const stop = new AbortController();
    const end = (): void => stop.abort();
    const cancel = clock.setTimer(end, limitMs);
    this.over.addEventListener('abort', end);
    try {
      return await Promise.race([ask(candidate, stop.signal), rejectionBy(stop.signal)]);
    } finally {
      cancel();
      this.over.removeEventListener('abort', end);
      end();
    }
  }
}

const rejectionBy = (signal: AbortSignal): Promise<never> =>
  new Promise((_resolve, reject) => {
    signal.addEventListener('abort', () => reject(new Error('no answer in time')));
  });

/** Sends one command by a connection of its own. */
async function askOnce(
  plan: ConnectionPlan,
  parts: ClientParts,
  args: readonly string[],
  stop: AbortSignal,
): Promise<unknown> {
  const connection = new OwnConnection({ ...plan, endsForGood: true }, parts);
  stop.addEventListener('abort', () => connection.disconnect());
  try {
    await connection.connect();
    return await connection.send(args);
  } finally {
    connection.disconnect();
  }
}

/** Which master serves some slots, and its replicas, by the addresses that they announce. */
export interface Shard {
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
    return {
      from,
      to,
      master: readNode(master, asked),
      replicas: replicas.map((node) => readNode(node, asked)),
    };
  });
  if (shards.length === 0) throw new Error('CLUSTERDOWN the node knows of no slots');
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

const malformed = (): Error => new Error('the answer to CLUSTER SLOTS is no list of slots');

interface SlotsQuestion {
  /** Known nodes of the cluster. */
  readonly addresses: readonly ServerAddress[];
  readonly nodeAt: (at: ServerAddress) => OwnConnection | undefined;
  readonly planOf: (at: ServerAddress) => ConnectionPlan;
  readonly parts: ClientParts;
  readonly signal: AbortSignal;
  readonly onFailure: (at: ServerAddress) => void;
}

const SLOTS = ['cluster', 'slots'] as const;

/** Asks a node which one serves which slot: at random, because one that has lost the others answers, too, as if all were as before. */
function askForSlots(question: SlotsQuestion): Promise<Shard[]> {
  const { addresses, nodeAt, planOf, parts, signal, onFailure } = question;
  return firstAnswer({
    candidates: shuffled(addresses, parts.random),
    ask: async (at, stop) => {
      const node = nodeAt(at);
      const isOpen = node?.isWritable === true;
      return readShards(isOpen ? await node.send(SLOTS) : await askOnce(planOf(at), parts, SLOTS, stop), at);
    },
    patienceMs: NODE_INFO_TIMEOUT_MS,
    limitMs: planOf(addresses[0]!).connectTimeout + NODE_INFO_TIMEOUT_MS,
    clock: parts.clock,
    signal,
    onFailure,
  });
}

function shuffled<T>(values: readonly T[], random: Randomness): T[] {
  const order = values.map((value) => ({ value, at: random.fraction() }));
  return order.toSorted((a, b) => a.at - b.at).map(({ value }) => value);
}

interface Node {
  readonly at: ServerAddress;
  readonly connection: OwnConnection;
  isMaster: boolean;
}

/** The connections to the nodes of a cluster, and which of them serves a slot. */
export class NodesOfCluster {
  readonly #nodes = new Map<string, Node>();
  readonly #masters: (ServerAddress | undefined)[] = [];
  /** What is attached to each node, and what it left there. */
  readonly #attached = new Map<(node: SingleClient) => () => void, Map<OwnConnection, () => void>>();

  /** `open` makes a connection that is not connected yet. */
  constructor(
    private readonly open: (at: ServerAddress) => OwnConnection,
    private readonly reachedBy: (announced: ServerAddress) => ServerAddress,
  ) {}

  get addresses(): readonly ServerAddress[] {
    return [...this.#nodes.values()].map(({ at }) => at);
  }

  of(role: 'master' | 'all'): readonly OwnConnection[] {
    const nodes = [...this.#nodes.values()].filter(({ isMaster }) => role === 'all' || isMaster);
    return nodes.map(({ connection }) => connection);
  }

  at(address: ServerAddress): OwnConnection | undefined {
    return this.#nodes.get(addressText(address))?.connection;
  }

  masterOf(slot: number): ServerAddress | undefined {
    return this.#masters[slot];
  }

  /** Takes over what a node has answered: connects to masters, and leaves nodes that are gone. */
  update(shards: readonly Shard[]): void {
    const before = new Set(this.#nodes.keys());
    this.#masters.length = 0;
    for (const { from, to, master, replicas } of shards) {
      const at = this.reachedBy(master);
      for (let slot = from; slot <= to; slot++) this.#masters[slot] = at;
      before.delete(this.add(at, true));
      for (const replica of replicas) before.delete(this.add(this.reachedBy(replica), false));
    }
    for (const name of before) this.#remove(name);
  }

  /** A node has named another one as the master of a slot. */
  move(slot: number, to: ServerAddress): void {
    this.#masters[slot] = to;
    this.add(to, true);
  }

  /** Adds a node, and connects to it if it is a master; returns its name. */
  add(at: ServerAddress, isMaster = true): string {
    const name = addressText(at);
    let node = this.#nodes.get(name);
    if (!node) {
      node = { at, connection: this.open(at), isMaster };
      this.#nodes.set(name, node);
      for (const [attach, places] of this.#attached) places.set(node.connection, attach(node.connection));
    }
    node.isMaster = isMaster;
    if (isMaster && node.connection.status === 'idle') node.connection.connect().catch(() => undefined);
    return name;
  }

  attach(attach: (node: SingleClient) => () => void): () => void {
    const places = new Map<OwnConnection, () => void>();
    this.#attached.set(attach, places);
    for (const node of this.of('all')) places.set(node, attach(node));
    return () => {
      this.#attached.delete(attach);
      for (const detach of places.values()) detach();
    };
  }

  /** Cuts all connections; they are opened again. */
  reconnect(): void {
    for (const node of this.of('all')) node.reconnect();
  }

  close(): void {
    for (const name of this.#nodes.keys()) this.#remove(name);
  }

  #remove(name: string): void {
    const { connection } = this.#nodes.get(name)!;
    this.#nodes.delete(name);
    connection.disconnect();
    for (const places of this.#attached.values()) {
      places.get(connection)?.();
      places.delete(connection);
    }
  }
}

/** How a cluster is reached. */
export interface ClusterPlan {
  /** Some of its nodes. */
  readonly seeds: readonly ServerAddress[];
  readonly refreshMs: number;
  /** How a node is reached. */
  readonly node: (at: ServerAddress) => ConnectionPlan;
  readonly reachedBy: (announced: ServerAddress) => ServerAddress;
}

/**
 * A cluster by connections of our own. The cluster client of node-redis queues commands, sends them again and hides which node has
 * them, so only its options are used.
 */
export class OwnCluster extends OwnClient implements ClusterClient {
  readonly isCluster = true;
  readonly endsForGood = false;
  readonly #nodes: NodesOfCluster;
  /** The question for the slots that is under way. */
  #refresh: Promise<void> | null = null;
  #isRefreshDue = false;
  /** How many questions in a row had no answer. */
  #unanswered = 0;
  #over = new AbortController();
  #cancelRefresh = (): void => undefined;
  /** The connections to subscribe by, each with the address of its node. */
  readonly #subscribers = new Map<OwnConnection, string>();

  constructor(
    private readonly plan: ClusterPlan,
    parts: ClientParts,
  ) {
    super(parts);
    this.#nodes = new NodesOfCluster((at) => this.#newMember(at), plan.reachedBy);
  }

  get isWritable(): boolean {
    return this.status === 'ready';
  }

  reconnect(): void {
    if (this.status !== 'ready') return;
    this.#nodes.reconnect();
    this.lose(undefined);
  }

  /** The nodes that the application named may be the ones that do not answer. */
  duplicate(): OwnCluster {
    const copy = new OwnCluster({ ...this.plan, seeds: this.#knownAddresses }, this.parts);
    copy.begin();
    return copy;
  }

  watchMaster(): null {
    return null;
  }

  nodes(role: 'master' | 'all'): readonly SingleClient[] {
    return this.#nodes.of(role);
  }

  masterOf(storageKey: string): OwnConnection | undefined {
    const address = this.masterAddressOf(storageKey);
    return address && this.#nodes.at(address);
  }

  masterAddressOf(storageKey: string): ServerAddress | undefined {
    return this.#nodes.masterOf(slotOf(storageKey));
  }

  reachedBy(address: ServerAddress): ServerAddress {
    return this.plan.reachedBy(address);
  }

  openNode(address: ServerAddress): OwnConnection | null {
    if (this.#nodes.addresses.length === 0) return null;
    return this.#openApart(address);
  }

  /** A node of a cluster hears what is published at any of them. One that left the cluster may stay up, but hears no more. */
  openSubscriber(): OwnConnection | null {
    const { addresses } = this.#nodes;
    const at = addresses[Math.floor(this.parts.random.fraction() * addresses.length)];
    if (!at) return null;
    const subscriber = this.#openApart(at);
    this.#subscribers.set(subscriber, addressText(at));
    subscriber.once('ended', () => this.#subscribers.delete(subscriber));
    return subscriber;
  }

  attachToNodes(attach: (node: SingleClient) => () => void): () => void {
    return this.#nodes.attach(attach);
  }

  refreshSlots(onDone: () => void): void {
    void this.#refreshOnce().then(onDone);
  }

  protected override open(): void {
    this.#over = new AbortController();
    void this.#refreshOnce();
  }

  protected override drop(): void {
    this.#cancelRefresh();
    this.#over.abort();
    this.#nodes.close();
  }

  /** Sends a script. Follows redirections: the view of the slots may be outdated, or the slot may be moving. */
  protected override async send(args: readonly string[]): Promise<unknown> {
    // EVALSHA, the hash, the number of keys, and the first of them.
    const slot = slotOf(args[3] ?? '');
    let at = this.#nodes.masterOf(slot);
    let asking = false;
    for (let redirects = 0; ; redirects++) {
      const node = at && this.#nodes.at(at);
      if (!node) throw unsentError();
      if (!node.isWritable) await untilWritable(node);
      try {
        if (asking) node.asking();
        return await node.send(args);
      } catch (error) {
        const redirect = readRedirect(error, at!);
        // A node that has lost the others says so, while they may have another master for its slots.
        if ((error as Error).message.startsWith('CLUSTERDOWN')) this.#refreshSoon();
        if (!redirect || redirects === MAX_REDIRECTS || this.status === 'ended') throw error;
        at = this.reachedBy(redirect.address);
        asking = redirect.isAsk;
        if (asking) this.#nodes.add(at);
        else this.#nodes.move(slot, at);
        this.#refreshSoon();
      }
    }
  }

  get #knownAddresses(): readonly ServerAddress[] {
    const known = new Map([...this.#nodes.addresses, ...this.plan.seeds].map((at) => [addressText(at), at]));
    return [...known.values()];
  }

  /** A connection that serves commands. */
  #newMember(at: ServerAddress): OwnConnection {
    const node = new OwnConnection(this.plan.node(at), this.parts);
    // The slots of a node that is gone may have another master.
    node.on('closed', () => this.#refreshSoon());
    return node;
  }

  /** A connection for other than the commands of the store; it ends when its node is gone. */
  #openApart(at: ServerAddress): OwnConnection {
    return OwnConnection.opened({ ...this.plan.node(at), endsForGood: true }, this.parts);
  }

  #refreshOnce(): Promise<void> {
    if (this.status === 'idle' || this.status === 'ended') return Promise.resolve();
    return (this.#refresh ??= this.#refreshNow(this.#over.signal).finally(() => (this.#refresh = null)));
  }

  async #refreshNow(signal: AbortSignal): Promise<void> {
    this.#isRefreshDue = false;
    try {
      const shards = await askForSlots({
        addresses: this.#knownAddresses,
        nodeAt: (at) => this.#nodes.at(at),
        planOf: this.plan.node,
        parts: this.parts,
        signal,
        onFailure: (at) => this.events.emit('nodeError', addressText(at)),
      });
      if (signal.aborted) return;
      this.#unanswered = 0;
      this.#nodes.update(shards);
      this.#leaveForeignNodes();
      this.#refreshIn(this.plan.refreshMs);
      if (this.status === 'ready') return;
      this.become('connected');
      this.become('ready');
    } catch (error) {
      if (!signal.aborted) this.#onUnanswered(error as Error);
    }
  }

  /** Nobody has told the slots: commands go on by the connections that there are, and nodes say if a slot has moved. */
  #onUnanswered(error: Error): void {
    if (this.status !== 'ready' || !this.#nodes.of('all').some((node) => node.isWritable)) return this.lose(error);
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

  #leaveForeignNodes(): void {
    const members = new Set(this.#nodes.addresses.map(addressText));
    for (const [subscriber, at] of this.#subscribers) if (!members.has(at)) subscriber.disconnect();
  }
}

/** Nothing waits for a node that was lost: its slots may have another master by then. */
async function untilWritable(node: OwnConnection): Promise<void> {
  if (node.status === 'closed' || node.status === 'ended') throw unsentError();
  await node.connect().catch(() => {
    throw unsentError();
  });
}
