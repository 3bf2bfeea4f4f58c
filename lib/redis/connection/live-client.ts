import { AsyncLocalStorage } from 'node:async_hooks';
import { type Clock, setDeadline } from '../../core/clock.js';
import { type Reporter, withoutRepeats } from '../../core/reporter.js';
import { TimerQueue } from '../../core/timer-queue.js';
import { type RedisClient, type SingleClient } from '../client/redis-client.js';
import { GREETING_MS, SELECT_RETRY_MS } from '../timing.js';
import { ClusterNodes, type Destination } from './cluster-nodes.js';
import { ConnectionState } from './connection-state.js';
import { adviceOn, readableText } from './error-advice.js';
import { isLost } from './redis-errors.js';
import { ServerId } from './server-id.js';
import { type SilenceWatch } from './silence-watch.js';

const ignore = (): void => undefined;

/** A SELECT that was sent by the present connection. */
interface Selection {
  isDone: boolean;
  /** Why the server refuses it. */
  refusal: Error | null;
  /** When it is sent again after a refusal, on the monotonic clock. */
  retryAt: number;
  cancelDeadline: () => void;
}

/** The client that commands are sent by, kept alive, and whether it takes a command now: never while the library would queue it. */
export class LiveClient {
  /** Runs what opens connections or sets timers of ours, which would otherwise be in the async context of the caller. */
  readonly inOurContext = AsyncLocalStorage.snapshot();
  /** Is called with the INFO of the server when `serverId` has become known; with '' where INFO is refused. */
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
  /** Null: the present connection is in database 0, or nothing was sent by it yet. */
  #selection: Selection | null = null;
  #stopWatching: (() => void) | null = null;
  readonly #warn = withoutRepeats((line) => this.reporter.warn(line));

  constructor(
    /** The client as it is, whatever its state. */
    readonly client: RedisClient,
    readonly clock: Clock,
    private readonly reporter: Reporter,
    private readonly silence: SilenceWatch,
  ) {
    this.state = new ConnectionState();
    this.timers = new TimerQueue(clock);
    this.serverId = new ServerId(reporter);
    this.nodes = new ClusterNodes(clock, {
      inOurContext: this.inOurContext,
      onChange: () => this.state.changed(),
      onReady: (node) => silence.onReady(node),
      onLoss: () => this.beginEpoch(),
    });
  }

  /** The client to send by, watched from then on. */
  get current(): RedisClient {
    this.#stopWatching ??= this.#watch(this.client);
    return this.client;
  }

  /** Connects a client that waits for its first command to do so. Failures are retried, and reported by the commands. */
  connect(): void {
    const client = this.current;
    if (client.status === 'ready') this.identify();
    if (client.status !== 'idle') return;
    this.state.onConnecting();
    void this.inOurContext(() => client.connect().catch(ignore));
  }

  /** Whether a command is sent at once; if not, starts what may help. */
  isReady(client: RedisClient, to: Destination): boolean {
    if (client === this.client && client.status === 'idle') this.connect();
    if (!client.isWritable) return false;
    if (client.isCluster) return this.nodes.isReady(client, to);
    if (client !== this.client) return true;
    this.identify();
    if (this.isInDatabase(client)) return true;
    if (!this.#selection || this.clock.now() >= this.#selection.retryAt) this.#select(client);
    return false;
  }

  /** Asks which server it is, and what it is, before a command of ours is sent: the answer comes before that of the command. */
  identify(): void {
    const client = this.client;
    if (client.isCluster || !client.isWritable) return;
    const askedAt = this.clock.now();
    this.serverId.ask(client, askedAt, (info) => {
      if (info !== '') this.silence.onAnswer(client, askedAt);
      this.onServerId(info);
    });
  }

  /** Why the server refuses the database of the present connection; null: it does not, as far as known. */
  get refusedDatabase(): Error | null {
    return this.#selection?.refusal ?? null;
  }

  /** Whether the client has ended, and stays closed. */
  get hasEnded(): boolean {
    return this.client.status === 'ended' && this.client.endsForGood;
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
    this.#forgetConnection();
    await this.client.close();
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
    stops.push(this.inOurContext(() => client.supervise()));
    return () => {
      for (const stop of stops) stop();
    };
  }

  #onClose(): void {
    this.state.onClose();
    this.#forgetConnection();
    this.beginEpoch();
  }

  #forgetConnection(): void {
    this.serverId.forget();
    this.#selection?.cancelDeadline();
    this.#selection = null;
  }

  /** Whether the client is known to be in its database. A new connection is in database 0, and a library may go on there. */
  isInDatabase(client: SingleClient): boolean {
    const selection = client === this.client ? this.#selection : null;
    return selection?.isDone ?? client.database === 0;
  }

  /** Commands wait for the answer: one that was sent before could take a lock in another database. */
  #select(client: SingleClient): void {
    this.#selection?.cancelDeadline();
    const selection: Selection = { isDone: false, refusal: null, retryAt: Infinity, cancelDeadline: ignore };
    this.#selection = selection;
    const { database } = client;
    const end = (refusal: Error | null): void => {
      if (this.#selection !== selection) return;
      selection.cancelDeadline();
      Object.assign(selection, { isDone: !refusal, refusal, retryAt: this.clock.now() + SELECT_RETRY_MS });
      if (refusal) this.#onRefused(refusal);
      this.state.changed();
    };
    this.inOurContext(() => {
      selection.cancelDeadline = setDeadline(this.clock, () => client.reconnect(), GREETING_MS);
      // The loss of a connection is an event, too.
      client.select().then(
        () => end(null),
        (error: Error) => isLost(error) || end(namedAfter(error, database)),
      );
    });
  }

  #onRefused(error: Error): void {
    this.#warn(`Redis grants no lock while it refuses the database: ${readableText(error)}. ${adviceOn(error, false)}`);
  }

  #onReady(client: RedisClient): void {
    this.silence.onReady(client);
    this.state.onReady();
    this.identify();
    this.state.changed();
  }

  #onError(error: Error): void {
    const news = this.state.onError(error);
    if (news !== null) this.reporter.debug(`Redis connection: ${news}`);
    this.state.changed();
  }
}

const namedAfter = (error: Error, database: number): Error =>
  Object.assign(new Error(`${readableText(error)} (SELECT ${database})`), { name: error.name });
