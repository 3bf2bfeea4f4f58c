import { slotOf } from '../cluster-slots.js';
import { type ClientParts } from '../client-library.js';
import { unsentError } from '../connection-errors.js';
import { type ClusterClient, type SingleClient } from '../redis-client.js';
import { type ServerAddress, addressText } from '../server-address.js';
import { readRedirect } from '../../connection/redis-errors.js';
import { MAX_REDIRECTS, SLOTS_RETRY_MS, reconnectDelayMs } from '../../timing.js';
import { NodesOfCluster } from './cluster-nodes.js';
import { askForSlots } from './cluster-slots-question.js';
import { type ConnectionPlan, OwnConnection } from './own-connection.js';
import { OwnClient } from './own-client.js';

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
