import { AsyncLocalStorage } from 'node:async_hooks';
import { type Clock } from '../../core/clock.js';
import { type Reporter } from '../../core/reporter.js';
import { TimerQueue } from '../../core/timer-queue.js';
import { type RedisClient, type SingleClient } from '../client/redis-client.js';
import { GIVEN_CLIENT_AWAY_MS } from '../timing.js';
import { ClusterNodes, type Destination } from './cluster-nodes.js';
import { ConnectionState } from './connection-state.js';
import { ServerId } from './server-id.js';
import { type SilenceWatch } from './silence-watch.js';

const ignore = (): void => undefined;

/**
 * The client that commands are sent by, and whether it takes one now: never while the library would queue it. A client of our
 * own is kept alive. A given one is left for one of our own once it is of no use; a given cluster is left only as a whole.
 */
export class LiveClient {
  /** Runs what opens connections or sets timers of ours, which would otherwise be in the async context of the caller. */
  readonly inOurContext = AsyncLocalStorage.snapshot();
  /** Is called with the INFO of the server when `serverId` has become known. */
  onServerId: (info: string) => void = ignore;
  /** Another number after a connection was lost: commands sent before may have been sent twice, or may arrive late. */
  epoch = 0;
  isClosed = false;
  readonly state: ConnectionState;
  /** The deadlines of all commands. */
  readonly timers: TimerQueue;
  /** Of the server that commands go to now; unknown for a cluster. */
  readonly serverId: ServerId;
  readonly nodes: ClusterNodes;
  #client: RedisClient;
  #isOwned: boolean;
  /** Stops following the database that the application selects with a client that was left. */
  #stopFollowing = ignore;
  #stopWatching: (() => void) | null = null;

  /** `isOwned`: the client is ours to cut and to close. */
  constructor(
    client: RedisClient,
    isOwned: boolean,
    readonly clock: Clock,
    private readonly reporter: Reporter,
    private readonly silence: SilenceWatch,
  ) {
    this.#client = client;
    this.#isOwned = isOwned;
    this.state = new ConnectionState(clock);
    this.timers = new TimerQueue(clock);
    this.serverId = new ServerId(reporter);
    this.nodes = new ClusterNodes(clock, {
      inOurContext: this.inOurContext,
      onChange: () => this.state.changed(),
      onReady: (node) => silence.onReady(node),
      onLoss: () => this.beginEpoch(),
    });
  }

  /** The client as it is, whatever its state. */
  get client(): RedisClient {
    return this.#client;
  }

  get isOwned(): boolean {
    return this.#isOwned;
  }

  /** The client to send by, watched from then on. A given one that was closed, or has been away for long, is left. */
  get current(): RedisClient {
    this.#stopWatching ??= this.#watch(this.#client);
    if (!this.#isOwned && this.#client.status === 'ended') this.leaveGiven('was closed');
    if (!this.#isOwned && this.state.isAwayFor(GIVEN_CLIENT_AWAY_MS)) this.leaveGiven();
    return this.#client;
  }

  /** Connects a client that waits for its first command to do so. Failures are retried, and reported by the commands. */
  connect(): void {
    const client = this.current;
    if (client.status === 'ready') this.#identify();
    if (client.status !== 'idle') return;
    this.state.onConnecting();
    void this.inOurContext(() => client.connect().catch(ignore));
  }

  /** Whether a command is sent at once; if not, starts what may help. */
  isReady(client: RedisClient, to: Destination): boolean {
    if (client === this.#client && client.status === 'idle') this.connect();
    if (!client.isWritable) return false;
    return !client.isCluster || this.nodes.isReady(client, to);
  }

  /** Whether the client has ended, and stays closed. */
  get hasEnded(): boolean {
    return this.#client.status === 'ended' && this.#client.endsForGood;
  }

  /** The present client has answered. */
  onAnswer(): void {
    this.#identify();
  }

  /** Continues on a connection of our own to the same place. */
  leaveGiven(why = 'does not answer'): void {
    const given = this.#client;
    this.reporter.warn(`The given Redis client ${why}; locks continue on a connection of their own.`);
    this.#isOwned = true;
    if (!given.isCluster) this.#stopFollowing = given.on('database', () => this.#followDatabase(given));
    this.#adoptCopyOf(given);
  }

  /** Commands that were sent until now may have been sent twice, or may arrive late. */
  beginEpoch(): void {
    this.epoch += 1;
    this.state.changed();
  }

  async close(): Promise<void> {
    this.isClosed = true;
    this.timers.close();
    (this.#stopWatching ??= ignore)();
    this.#stopFollowing();
    if (this.#isOwned) await this.#client.close();
  }

  /** The application selected another database with its client, and its locks move there, too. */
  #followDatabase(left: SingleClient): void {
    const before = this.#client;
    this.#adoptCopyOf(left);
    void before.close();
  }

  #adoptCopyOf(original: RedisClient): void {
    this.#stopWatching?.();
    this.#client = this.inOurContext(() => original.duplicate());
    this.serverId.forget();
    this.#stopWatching = this.#watch(this.#client);
    this.beginEpoch();
  }

  #watch(client: RedisClient): () => void {
    if (client.status !== 'ready' && client.status !== 'idle') this.state.onConnecting();
    const stops = [
      client.on('closed', () => this.#onClose()),
      client.on('ready', () => this.#onReady(client)),
      client.on('ended', () => this.state.changed()),
      client.on('error', (error) => this.#onError(error)),
    ];
    if (client.isCluster) stops.push(this.nodes.watch(client));
    if (this.#isOwned) stops.push(this.inOurContext(() => client.supervise()));
    return () => {
      for (const stop of stops) stop();
    };
  }

  #onClose(): void {
    this.state.onClose();
    this.serverId.forget();
    this.beginEpoch();
  }

  #onReady(client: RedisClient): void {
    this.silence.onReady(client);
    this.state.onReady();
    this.#identify();
    this.state.changed();
  }

  #onError(error: Error): void {
    const news = this.state.onError(error);
    if (news !== null) this.reporter.debug(`Redis connection: ${news}`);
    this.state.changed();
  }

  /** Asks before any command of ours is sent on a new connection, so that the answer comes before theirs. */
  #identify(): void {
    const client = this.#client;
    if (client.isCluster) return;
    const askedAt = this.clock.now();
    this.serverId.ask(client, (info) => {
      this.silence.onAnswer(client, askedAt);
      this.onServerId(info);
    });
  }
}
