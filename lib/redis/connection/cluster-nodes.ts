import type { Cluster, Redis } from 'ioredis';
import { type Clock } from '../../core/clock.js';
import { GIVEN_CLIENT_AWAY_MS, SLOTS_RETRY_MS } from '../timing.js';
import { masterOf } from './cluster-slots.js';
import { type RedisClient, isCluster, isWritable } from './redis-client.js';

/** Where a command goes: to this node of a cluster, or to the one that serves the storage key. */
export interface Destination {
  readonly storageKey?: string | undefined;
  readonly node?: Redis | undefined;
}

/** The connection to a node by which a cluster client sends a command, as far as it knows. */
export function nodeOf(client: RedisClient, { storageKey, node }: Destination): Redis | undefined {
  return node ?? (isCluster(client) && storageKey !== undefined ? masterOf(client, storageKey) : undefined);
}

interface NodeListener {
  /** Runs what opens connections or sets timers. */
  readonly inOurContext: <R>(work: () => R) => R;
  /** Commands to some node can be sent now, or can no longer be sent. */
  onChange(): void;
  /** There is a new connection to a node. */
  onReady(node: Redis): void;
  /** A connection to a node was lost. */
  onLoss(): void;
}

/** The connections of a cluster client to its nodes: ioredis queues what is sent by one that is not ready. */
export class ClusterNodes {
  readonly #refreshing = new WeakSet<Cluster>();
  /** Since when a connection that a command needs is not ready. */
  readonly #unreadySince = new WeakMap<Redis, number>();
  readonly #silent = new WeakSet<Redis>();

  constructor(
    private readonly clock: Clock,
    private readonly listener: NodeListener,
  ) {}

  /** Whether the node takes a command now; if not, starts what may help. */
  isReady(cluster: Cluster, to: Destination): boolean {
    const node = nodeOf(cluster, to);
    if (!node && to.storageKey === undefined) return true;
    if (!node) {
      this.#refresh(cluster);
      return false;
    }
    if (node.status === 'wait') void this.listener.inOurContext(() => node.connect().catch(() => undefined));
    if (isWritable(node)) return true;
    if (!this.#unreadySince.has(node)) this.#unreadySince.set(node, this.clock.now());
    return false;
  }

  /** Whether a node does not answer, as far as known. */
  isSilent(node: Redis): boolean {
    return (
      this.#silent.has(node) || this.clock.now() - (this.#unreadySince.get(node) ?? Infinity) > GIVEN_CLIENT_AWAY_MS
    );
  }

  /** Remembers that a node does not answer; false when that was known. */
  markSilent(node: Redis): boolean {
    if (this.#silent.has(node)) return false;
    this.#silent.add(node);
    return true;
  }

  /** A node has answered, however late. */
  onAnswer(node: Redis): void {
    this.#silent.delete(node);
  }

  /** Follows the connections; returns a function that stops this. */
  watch(cluster: Cluster): () => void {
    return attachToNodes(cluster, (node) => {
      const onReady = (): void => {
        this.#unreadySince.delete(node);
        this.listener.onReady(node);
        this.listener.onChange();
      };
      const onClose = (): void => {
        this.#silent.delete(node);
        this.listener.onLoss();
      };
      node.on('ready', onReady);
      node.on('close', onClose);
      return () => {
        node.off('ready', onReady);
        node.off('close', onClose);
      };
    });
  }

  #refresh(cluster: Cluster): void {
    if (this.#refreshing.has(cluster)) return;
    this.#refreshing.add(cluster);
    const next = (): void => {
      this.#refreshing.delete(cluster);
      this.listener.onChange();
    };
    this.listener.inOurContext(() => cluster.refreshSlotsCache(() => void this.clock.setTimer(next, SLOTS_RETRY_MS)));
  }
}

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
