import { AsyncLocalStorage } from 'node:async_hooks';
import { errorMonitor } from 'node:events';
import { type Redis } from 'ioredis';
import { type Clock } from '../../core/clock.js';
import { type Reporter } from '../../core/reporter.js';
import { ClusterNodes, type Destination, nodeOf } from './cluster-nodes.js';
import { ConnectionHealth } from './connection-health.js';
import { ConnectionState } from './connection-state.js';
import { type RedisClient, closeClient, duplicateClient, endsForGood, isCluster, isWritable } from './redis-client.js';
import { ServerId } from './server-id.js';
import { supervise } from './supervise.js';

/** When a command was sent, and to which node of a cluster. */
interface Sent {
  readonly sentTo: Destination;
  readonly sentAt: number;
}

/** How long a given client may be away before locks go on without it. */
const PATIENCE_MS = 3_000;

const ignore = (): void => undefined;

/**
 * The client that commands are sent by, and when: never while ioredis would queue them. One of our own is kept alive; a given
 * one is left for one of our own when it is of no use any more, a given cluster only when it is so as a whole.
 */
export class LiveClient {
  /** Runs what makes connections or timers of ours, which would else be in the context of whoever calls. */
  readonly inOurContext = AsyncLocalStorage.snapshot();
  /** Hears when `serverId` has become known. */
  onServerId: () => void = ignore;
  /** Another number after a connection was lost: commands sent before may have been sent twice, or arrive late. */
  epoch = 0;
  isClosed = false;
  readonly state: ConnectionState;
  /** Of the server that commands go to now; not known of a cluster. */
  readonly serverId: ServerId;
  #client: RedisClient;
  /** The application's, after it was left. */
  #left: Redis | null = null;
  #stopWatching: (() => void) | null = null;
  /** Connections that end because of us. */
  readonly #ending = new WeakSet<RedisClient>();
  readonly #nodes: ClusterNodes;
  readonly #health: ConnectionHealth;

  /** `owned`: the client is ours to cut and to close. */
  constructor(
    client: RedisClient,
    private owned: boolean,
    readonly clock: Clock,
    private readonly reporter: Reporter,
  ) {
    this.#client = client;
    this.state = new ConnectionState(clock);
    this.serverId = new ServerId(reporter);
    this.#health = new ConnectionHealth(clock);
    this.#nodes = new ClusterNodes(clock, {
      inOurContext: this.inOurContext,
      onChange: () => this.state.changed(),
      onReady: (node) => this.#health.onReady(node),
      onLoss: () => this.#newEpoch(),
    });
  }

  /** The client to send by, which is watched from then on. A given one that was closed, or is away for long, is left. */
  get current(): RedisClient {
    this.#stopWatching ??= this.#watch(this.#client);
    if (!this.owned && this.#client.status === 'end') this.#leaveGiven('was closed');
    if (!this.owned && this.state.isAwayFor(PATIENCE_MS)) this.#leaveGiven();
    return this.#client;
  }

  /** Connects one that waits for its first command to do so; what fails is tried again, and told by the commands. */
  connect(): void {
    const client = this.current;
    if (client.status === 'ready') this.#identify();
    if (client.status !== 'wait') return;
    this.state.onConnecting();
    void this.inOurContext(() => client.connect().catch(ignore));
  }

  /** Whether a command is sent at once; if not, what can be done for it is done. */
  isReady(client: RedisClient, to: Destination): boolean {
    if (client === this.#client && client.status === 'wait') this.connect();
    if (!isWritable(client)) return false;
    return !isCluster(client) || this.#nodes.isReady(client, to);
  }

  /** Whether it has ended, and is not opened again. */
  get hasEnded(): boolean {
    return this.#client.status === 'end' && endsForGood(this.#client);
  }

  /** Whether that node of a given cluster does not answer, so that others have to be asked in its place. */
  isSilent(to: Destination): boolean {
    const node = this.owned ? undefined : nodeOf(this.#client, to);
    if (!node || !this.#nodes.isSilent(node)) return false;
    this.#silence(node);
    return true;
  }

  /** An answer came to what was sent at `sentAt`, however late. */
  onAnswer(client: RedisClient, to: Destination, sentAt: number): void {
    const node = nodeOf(client, to);
    this.#health.onAnswer(node ?? client, sentAt);
    if (client === this.#client) {
      this.state.onAnswer();
      this.#identify();
    }
    if (node) this.#nodes.onAnswer(node);
  }

  /** The application subscribes by it, so that it takes no commands any more. */
  leaveSubscriber(client: RedisClient): void {
    if (!this.isClosed && !this.owned && client === this.#client) this.#leaveGiven('subscribes to channels');
  }

  /** The master was made a replica, and its connection stayed: connecting again finds the new one. */
  leaveReplica(client: RedisClient, to: Destination): void {
    if (this.owned) this.replace(client, to);
    else if (client === this.#client) this.state.onReadOnly();
  }

  /** Leaves a server that is no master any more, as a connection that is not ready does, too. */
  leaveMaster(client: RedisClient): void {
    if (this.isClosed || client !== this.#client) return;
    if (this.owned) this.inOurContext(() => client.disconnect(true));
    else this.#leaveGiven('is connected to a server that is no master any more');
  }

  /** What was sent to it has no answer in time: replaces the connection if it is dead. */
  onTimeout(client: RedisClient, { sentTo, sentAt }: Sent, timeoutMs: number): void {
    const replace = (): void => this.replace(client, sentTo);
    this.inOurContext(() => this.#health.onTimeout(nodeOf(client, sentTo) ?? client, sentAt, timeoutMs, replace));
  }

  /** Replaces a connection. */
  replace(client: RedisClient, to: Destination): void {
    // After the close nobody would ever close a new connection.
    if (this.isClosed || client !== this.#client) return;
    const node = nodeOf(client, to);
    if (this.owned) return this.#cut(isCluster(client) ? node : client);
    // A given client may be stuck behind somebody's blocking command, and is not ours to cut.
    if (!isCluster(client)) return this.#leaveGiven();
    if (node) this.#silence(node);
  }

  async close(): Promise<void> {
    this.isClosed = true;
    (this.#stopWatching ??= ignore)();
    this.#left?.off('select', this.#followDatabase);
    if (this.owned) await closeClient(this.#client);
  }

  /** Of a cluster, only the connection to the node: the others answer. One that is not ready yet has its own deadline. */
  #cut(client: RedisClient | undefined): void {
    // Once: it is ready until its socket is closed, and each cut leaves a listener there.
    if (client?.status !== 'ready' || this.#ending.has(client)) return;
    this.#ending.add(client);
    client.once('close', () => this.#ending.delete(client));
    this.inOurContext(() => client.disconnect(true));
  }

  #silence(node: Redis): void {
    if (!this.#nodes.silence(node)) return;
    this.reporter.warn('A node of the given cluster does not answer; its locks continue on a connection of their own.');
    this.#newEpoch();
  }

  #leaveGiven(why = 'does not answer'): void {
    const given = this.#client;
    this.reporter.warn(`The given Redis client ${why}; locks continue on a connection of their own.`);
    this.owned = true;
    if (!isCluster(given)) this.#left = given.on('select', this.#followDatabase);
    this.#adopt(given);
  }

  /** The application went to another database with its client, and so do its locks. */
  readonly #followDatabase = (): void => {
    const before = this.#client;
    this.#adopt(this.#left!);
    void closeClient(before);
  };

  #adopt(original: RedisClient): void {
    this.#stopWatching?.();
    this.#client = this.inOurContext(() => duplicateClient(original));
    this.serverId.forget();
    this.#stopWatching = this.#watch(this.#client);
    this.#newEpoch();
  }

  #newEpoch(): void {
    this.epoch += 1;
    this.state.changed();
  }

  #watch(client: RedisClient): () => void {
    if (client.status !== 'ready' && client.status !== 'wait') this.state.onConnecting();
    const listeners = new Map<string | symbol, (error: Error) => void>([
      ['close', () => this.#onClose()],
      ['ready', () => this.#onReady(client)],
      ['end', () => this.state.changed()],
      [errorMonitor, (error) => this.#onError(error)],
    ]);
    for (const [event, listener] of listeners) client.on(event as 'error', listener);
    // Without one ioredis writes to the console; about a given client that is up to the application.
    if (this.owned) client.on('error', ignore);
    const stopNodes = isCluster(client) ? this.#nodes.watch(client) : ignore;
    const stopSupervision = this.owned ? this.inOurContext(() => supervise(client, this.clock)) : ignore;
    return () => {
      for (const [event, listener] of listeners) client.off(event, listener);
      stopNodes();
      stopSupervision();
    };
  }

  #onClose(): void {
    this.state.onClose();
    this.serverId.forget();
    this.#newEpoch();
  }

  #onReady(client: RedisClient): void {
    this.#health.onReady(client);
    this.state.onReady();
    this.#identify();
    this.state.changed();
  }

  #onError(error: Error): void {
    const news = this.state.onError(error);
    if (news !== null) this.reporter.debug(`Redis connection: ${news}`);
    this.state.changed();
  }

  /** Before any command of ours is sent on a new connection: so it is answered before them. */
  #identify(): void {
    const client = this.#client;
    if (isCluster(client)) return;
    const askedAt = this.clock.now();
    this.serverId.ask(client, () => {
      this.#health.onAnswer(client, askedAt);
      this.onServerId();
    });
  }
}
