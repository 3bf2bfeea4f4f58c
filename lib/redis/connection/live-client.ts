import { AsyncLocalStorage } from 'node:async_hooks';
import { errorMonitor } from 'node:events';
import { type Redis } from 'ioredis';
import { type Clock } from '../../core/clock.js';
import { type Reporter } from '../../core/reporter.js';
import { GIVEN_CLIENT_AWAY_MS } from '../timing.js';
import { ClusterNodes, type Destination } from './cluster-nodes.js';
import { ConnectionState } from './connection-state.js';
import { duplicateClient } from './open-client.js';
import { type RedisClient, closeClient, endsForGood, isCluster, isWritable } from './redis-client.js';
import { ServerId } from './server-id.js';
import { type SilenceWatch } from './silence-watch.js';
import { supervise } from './supervise.js';

const ignore = (): void => undefined;

/**
 * The client that commands are sent by, and whether it takes one now: never while ioredis would queue it. A client of our
 * own is kept alive. A given one is left for one of our own once it is of no use; a given cluster is left only as a whole.
 */
export class LiveClient {
  /** Runs what opens connections or sets timers of ours, which would otherwise be in the async context of the caller. */
  readonly inOurContext = AsyncLocalStorage.snapshot();
  /** Is called when `serverId` has become known. */
  onServerId: () => void = ignore;
  /** Another number after a connection was lost: commands sent before may have been sent twice, or may arrive late. */
  epoch = 0;
  isClosed = false;
  readonly state: ConnectionState;
  /** Of the server that commands go to now; unknown for a cluster. */
  readonly serverId: ServerId;
  readonly nodes: ClusterNodes;
  #client: RedisClient;
  #isOwned: boolean;
  /** The client of the application, after it was left. */
  #left: Redis | null = null;
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
    if (!this.#isOwned && this.#client.status === 'end') this.leaveGiven('was closed');
    if (!this.#isOwned && this.state.isAwayFor(GIVEN_CLIENT_AWAY_MS)) this.leaveGiven();
    return this.#client;
  }

  /** Connects a client that waits for its first command to do so. Failures are retried, and reported by the commands. */
  connect(): void {
    const client = this.current;
    if (client.status === 'ready') this.#identify();
    if (client.status !== 'wait') return;
    this.state.onConnecting();
    void this.inOurContext(() => client.connect().catch(ignore));
  }

  /** Whether a command is sent at once; if not, starts what may help. */
  isReady(client: RedisClient, to: Destination): boolean {
    if (client === this.#client && client.status === 'wait') this.connect();
    if (!isWritable(client)) return false;
    return !isCluster(client) || this.nodes.isReady(client, to);
  }

  /** Whether the client has ended, and stays closed. */
  get hasEnded(): boolean {
    return this.#client.status === 'end' && endsForGood(this.#client);
  }

  /** The present client has answered. */
  onAnswer(): void {
    this.state.onAnswer();
    this.#identify();
  }

  /** Continues on a connection of our own to the same place. */
  leaveGiven(why = 'does not answer'): void {
    const given = this.#client;
    this.reporter.warn(`The given Redis client ${why}; locks continue on a connection of their own.`);
    this.#isOwned = true;
    if (!isCluster(given)) this.#left = given.on('select', this.#followDatabase);
    this.#adoptCopyOf(given);
  }

  /** Commands that were sent until now may have been sent twice, or may arrive late. */
  beginEpoch(): void {
    this.epoch += 1;
    this.state.changed();
  }

  async close(): Promise<void> {
    this.isClosed = true;
    (this.#stopWatching ??= ignore)();
    this.#left?.off('select', this.#followDatabase);
    if (this.#isOwned) await closeClient(this.#client, this.clock);
  }

  /** The application selected another database with its client, and its locks move there, too. */
  readonly #followDatabase = (): void => {
    const before = this.#client;
    this.#adoptCopyOf(this.#left!);
    void closeClient(before, this.clock);
  };

  #adoptCopyOf(original: RedisClient): void {
    this.#stopWatching?.();
    this.#client = this.inOurContext(() => duplicateClient(original));
    this.serverId.forget();
    this.#stopWatching = this.#watch(this.#client);
    this.beginEpoch();
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
    // Without a listener, ioredis writes to the console. For a given client, that is up to the application.
    if (this.#isOwned) client.on('error', ignore);
    const stopNodes = isCluster(client) ? this.nodes.watch(client) : ignore;
    const stopSupervision = this.#isOwned ? this.inOurContext(() => supervise(client, this.clock)) : ignore;
    return () => {
      for (const [event, listener] of listeners) client.off(event, listener);
      stopNodes();
      stopSupervision();
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
    if (isCluster(client)) return;
    const askedAt = this.clock.now();
    this.serverId.ask(client, () => {
      this.silence.onAnswer(client, askedAt);
      this.onServerId();
    });
  }
}
