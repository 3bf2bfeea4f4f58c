import { type Cluster, type Redis } from 'ioredis';
import { type Clock } from '../../core/clock.js';
import { masterOf } from './cluster-slots.js';
import { type RedisClient, isCluster, isWritable } from './redis-client.js';

/** How long the connection to one node may be away before its locks go on without it. */
const PATIENCE_MS = 3_000;

/** How long to wait before a cluster is asked again where its slots are. */
const REFRESH_PAUSE_MS = 100;

/** Where a command goes: to the node of a cluster that serves the storage key, or to this one. */
export interface Destination {
  readonly storageKey?: string | undefined;
  readonly node?: Redis | undefined;
}

/** The connection to a node by which a cluster's client sends a command, as far as it knows. */
export function nodeOf(client: RedisClient, { storageKey, node }: Destination): Redis | undefined {
  return node ?? (isCluster(client) && storageKey !== undefined ? masterOf(client, storageKey) : undefined);
}

interface Host {
  /** Runs what makes connections or timers. */
  readonly inOurContext: <R>(work: () => R) => R;
  /** Hears that commands to some node may be sent now, or not any more. */
  onChange(): void;
  /** Hears that there is a new connection to a node. */
  onReady(node: Redis): void;
  /** Hears that a connection to a node was lost. */
  onLoss(): void;
}

/** The connections of a cluster's client to its nodes: ioredis queues what is sent to one that is not ready. */
export class ClusterNodes {
  readonly #refreshing = new WeakSet<Cluster>();
  /** Since when a connection is not ready, though a command needs it. */
  readonly #unreadySince = new WeakMap<Redis, number>();
  readonly #silent = new WeakSet<Redis>();

  constructor(
    private readonly clock: Clock,
    private readonly host: Host,
  ) {}

  /** Whether the node takes a command now; if not, what can be done for it is done. */
  isReady(cluster: Cluster, to: Destination): boolean {
    const node = nodeOf(cluster, to);
    if (!node && to.storageKey === undefined) return true;
    if (!node) {
      this.#refresh(cluster);
      return false;
    }
    if (node.status === 'wait') void this.host.inOurContext(() => node.connect().catch(() => undefined));
    if (isWritable(node)) return true;
    if (!this.#unreadySince.has(node)) this.#unreadySince.set(node, this.clock.now());
    return false;
  }

  /** Whether a node does not answer, as far as is known. */
  isSilent(node: Redis): boolean {
    return this.#silent.has(node) || this.clock.now() - (this.#unreadySince.get(node) ?? Infinity) > PATIENCE_MS;
  }

  /** Remembers that a node did not answer; false when that is known. */
  silence(node: Redis): boolean {
    if (this.#silent.has(node)) return false;
    this.#silent.add(node);
    return true;
  }

  /** An answer came from a node, however late. */
  onAnswer(node: Redis): void {
    this.#silent.delete(node);
  }

  /** Follows the connections; gives what ends that. */
  watch(cluster: Cluster): () => void {
    return attachToNodes(cluster, (node) => {
      const onReady = (): void => {
        this.#unreadySince.delete(node);
        this.host.onReady(node);
        this.host.onChange();
      };
      const onClose = (): void => {
        this.#silent.delete(node);
        this.host.onLoss();
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
      this.host.onChange();
    };
    this.host.inOurContext(() => cluster.refreshSlotsCache(() => void this.clock.setTimer(next, REFRESH_PAUSE_MS)));
  }
}

/** Attaches something to each connection to a node that a cluster has, or will have; gives what detaches it from all. */
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
