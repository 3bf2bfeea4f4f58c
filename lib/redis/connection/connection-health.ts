import { type Destination, nodeOf } from './cluster-nodes.js';
import { type LiveClient } from './live-client.js';
import { type RedisClient, type SingleClient } from '../client/redis-client.js';
import { isReadOnly } from './redis-errors.js';
import { type SilenceWatch } from './silence-watch.js';

/** Decides from the answers of a connection, from their absence and from refusals, whether to replace it. */
export class ConnectionHealth {
  /** Connections that we are closing. */
  readonly #closing = new WeakSet<RedisClient>();

  constructor(
    private readonly live: LiveClient,
    private readonly silence: SilenceWatch,
  ) {}

  /** A command that was sent at `sentAt` was answered, however late. */
  onAnswer(client: RedisClient, to: Destination, sentAt: number): void {
    this.silence.onAnswer(nodeOf(client, to) ?? client, sentAt);
  }

  /** A command that was sent at `sentAt` has no answer in time: replaces the connection if it is dead. */
  onTimeout(client: RedisClient, to: Destination, sentAt: number, timeoutMs: number): void {
    const replace = (): void => this.replace(client, to);
    this.live.inOurContext(() => this.silence.onTimeout(nodeOf(client, to) ?? client, sentAt, timeoutMs, replace));
  }

  /** A command failed on this connection. A master that became a replica keeps its connections: a new one finds the new master. */
  onFailure(error: Error, client: RedisClient, to: Destination): void {
    if (isReadOnly(error)) this.replace(client, to);
  }

  /** The connection leads to a server that is no longer the master; one that is not ready finds the new one by itself. */
  onDemotion(client: RedisClient): void {
    const { live } = this;
    if (live.isClosed) return;
    live.inOurContext(() => client.reconnect());
  }

  /** Replaces a connection that is dead, or that returns the replies of other commands. */
  replace(client: RedisClient, to: Destination): void {
    const { live } = this;
    // After `close()`, nothing would close a new connection.
    if (!live.isClosed) this.#cut(client.isCluster ? nodeOf(client, to) : client);
  }

  /** Of a cluster, only the connection to the node: the others answer. One that is not ready yet has its own deadline. */
  #cut(client: SingleClient | undefined): void {
    // Once: it stays ready until its socket is closed, and each cut leaves a listener there.
    if (client?.status !== 'ready' || this.#closing.has(client)) return;
    this.#closing.add(client);
    client.once('closed', () => this.#closing.delete(client));
    this.live.inOurContext(() => client.reconnect());
  }
}
