import { type Clock } from '../../core/clock.js';
import { SLOTS_RETRY_MS } from '../timing.js';
import { type ClusterClient, type RedisClient } from '../client/cluster.js';
import { type SingleClient } from '../client/redis-client.js';

/** Where a command goes: to this node of a cluster, or to the one that serves the storage key. */
export interface Destination {
  readonly storageKey?: string | undefined;
  readonly node?: SingleClient | undefined;
}

/** The connection to a node with which a cluster client sends a command, as far as it knows. */
export function nodeOf(client: RedisClient, { storageKey, node }: Destination): SingleClient | undefined {
  return node ?? (client.isCluster && storageKey !== undefined ? client.masterOf(storageKey) : undefined);
}

interface NodeListener {
  /** Runs code that opens connections or sets timers. */
  readonly inOurContext: <R>(work: () => R) => R;
  /** Commands to some node can be sent now, or can no longer be sent. */
  onChange(): void;
  /** There is a new connection to a node. */
  onReady(node: SingleClient): void;
  /** A connection to a node was lost. */
  onLoss(): void;
  /** A connection to a node could not be opened. */
  onError(error: Error, node: SingleClient): void;
}

/** The connections of a cluster client to its nodes: the library queues commands for a connection that is not ready. */
export class ClusterNodes {
  readonly #refreshing = new WeakSet<ClusterClient>();

  constructor(
    private readonly clock: Clock,
    private readonly listener: NodeListener,
  ) {}

  /** Whether the node accepts a command now; if not, starts what may help. */
  isReady(cluster: ClusterClient, to: Destination): boolean {
    const node = nodeOf(cluster, to);
    if (!node && to.storageKey === undefined) return true;
    if (!node) {
      this.#refresh(cluster);
      return false;
    }
    if (node.status === 'idle') void this.listener.inOurContext(() => node.connect().catch(() => undefined));
    return node.isWritable;
  }

  /** Follows the connections; returns a function that stops this. */
  watch(cluster: ClusterClient): () => void {
    return cluster.attachToNodes((node) => {
      const onReady = (): void => {
        this.listener.onReady(node);
        this.listener.onChange();
      };
      const stops = [
        node.on('ready', onReady),
        node.on('closed', () => this.listener.onLoss()),
        node.on('error', (error) => this.listener.onError(error, node)),
        // It has left the cluster: what waits for it may go to the node that has its slots now.
        node.on('ended', () => this.listener.onChange()),
      ];
      return () => {
        for (const stop of stops) stop();
      };
    });
  }

  #refresh(cluster: ClusterClient): void {
    if (this.#refreshing.has(cluster)) return;
    this.#refreshing.add(cluster);
    const next = (): void => {
      this.#refreshing.delete(cluster);
      this.listener.onChange();
    };
    this.listener.inOurContext(() => cluster.refreshSlots(() => void this.clock.setTimer(next, SLOTS_RETRY_MS)));
  }
}
