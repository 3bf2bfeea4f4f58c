import type { Cluster, ClusterOptions, Redis } from 'ioredis';
import { slotOf } from '../cluster-slots.js';
import { type ClientEvents, type ClusterClient, type SingleClient } from '../redis-client.js';
import { type ServerAddress, isSameAddress, reachedBy, readAddress } from '../server-address.js';
import { type ClientOwner, IoredisBase } from './ioredis-base.js';
import { attachToNodes } from './lifecycle.js';

/** The owner of a cluster can open another client of the same cluster. */
interface ClusterOwner extends ClientOwner {
  duplicateCluster(cluster: Cluster, changes: ClusterOptions): ClusterClient;
}

/** A cluster client of ioredis. */
export class IoredisCluster extends IoredisBase<Cluster> implements ClusterClient {
  readonly isCluster = true;

  constructor(
    cluster: Cluster,
    protected override readonly owner: ClusterOwner,
  ) {
    super(cluster, owner);
  }

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
