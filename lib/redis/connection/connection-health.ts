import { type Reporter } from '../../core/reporter.js';
import { type Destination, nodeOf } from './cluster-nodes.js';
import { type LiveClient } from './live-client.js';
import { type RedisClient, type SingleClient } from '../client/redis-client.js';
import { isReadOnly, isSubscriber } from './redis-errors.js';
import { type SilenceWatch } from './silence-watch.js';

/**
 * Decides from the answers of a connection, from their absence and from refusals, whether commands can go on using it. A
 * connection of our own is replaced. A given one is not ours to cut: it is left; of a given cluster, only the silent node is.
 */
export class ConnectionHealth {
  /** Connections that we are closing. */
  readonly #closing = new WeakSet<RedisClient>();

  constructor(
    private readonly live: LiveClient,
    private readonly silence: SilenceWatch,
    private readonly reporter: Reporter,
  ) {}

  /** A command that was sent at `sentAt` was answered, however late. */
  onAnswer(client: RedisClient, to: Destination, sentAt: number): void {
    const node = nodeOf(client, to);
    this.silence.onAnswer(node ?? client, sentAt);
    if (node) this.live.nodes.onAnswer(node);
  }

  /** A command has written. */
  onWritten(client: RedisClient): void {
    if (client === this.live.client) this.live.state.onWritten();
  }

  /** A command that was sent at `sentAt` has no answer in time: replaces the connection if it is dead. */
  onTimeout(client: RedisClient, to: Destination, sentAt: number, timeoutMs: number): void {
    const replace = (): void => this.replace(client, to);
    this.live.inOurContext(() => this.silence.onTimeout(nodeOf(client, to) ?? client, sentAt, timeoutMs, replace));
  }

  /** A command failed on this connection. */
  onFailure(error: Error, client: RedisClient, to: Destination): void {
    if (isSubscriber(error)) this.#onSubscriber(client);
    if (isReadOnly(error)) this.#onReadOnly(client, to);
  }

  /** The connection leads to a server that is no longer the master; one that is not ready finds the new one by itself. */
  onDemotion(client: RedisClient): void {
    const { live } = this;
    if (live.isClosed || client !== live.client) return;
    if (live.isOwned) live.inOurContext(() => client.reconnect());
    else live.leaveGiven('is connected to a server that is no longer the master');
  }

  /** Replaces a connection that is dead, or that returns the replies of other commands. */
  replace(client: RedisClient, to: Destination): void {
    const { live } = this;
    // After `close()`, nobody would close a new connection.
    if (live.isClosed || client !== live.client) return;
    const node = nodeOf(client, to);
    if (live.isOwned) return this.#cut(client.isCluster ? node : client);
    // A given client may wait behind a blocking command of the application.
    if (!client.isCluster) return live.leaveGiven();
    if (node) this.#markSilent(node);
  }

  /** Whether that node of a given cluster does not answer, so that another connection has to serve its locks. */
  isSilent(to: Destination): boolean {
    const { live } = this;
    const node = live.isOwned ? undefined : nodeOf(live.client, to);
    if (!node || !live.nodes.isSilent(node)) return false;
    this.#markSilent(node);
    return true;
  }

  /** The application subscribes with its client, which then takes no commands. */
  #onSubscriber(client: RedisClient): void {
    const { live } = this;
    if (!live.isClosed && !live.isOwned && client === live.client) live.leaveGiven('subscribes to channels');
  }

  /** The master became a replica, and its connection stayed: a new connection finds the new master. */
  #onReadOnly(client: RedisClient, to: Destination): void {
    if (this.live.isOwned) this.replace(client, to);
    else if (client === this.live.client) this.live.state.onReadOnly();
  }

  /** Of a cluster, only the connection to the node: the others answer. One that is not ready yet has its own deadline. */
  #cut(client: SingleClient | undefined): void {
    // Once: it stays ready until its socket is closed, and each cut leaves a listener there.
    if (client?.status !== 'ready' || this.#closing.has(client)) return;
    this.#closing.add(client);
    client.once('closed', () => this.#closing.delete(client));
    this.live.inOurContext(() => client.reconnect());
  }

  #markSilent(node: SingleClient): void {
    if (!this.live.nodes.markSilent(node)) return;
    this.reporter.warn('A node of the given cluster does not answer; its locks continue on a connection of their own.');
    this.live.beginEpoch();
  }
}
