import { AsyncLocalStorage } from 'node:async_hooks';
import { type Clock } from '../../core/clock.js';
import { FreshMap } from '../../core/fresh-map.js';
import { type LockStoreError } from '../../core/lock.errors.js';
import { type Reporter } from '../../core/reporter.js';
import { TimerQueue } from '../../core/timer-queue.js';
import { type ClusterClient, type RedisClient } from '../client/cluster.js';
import { type LeadsToMaster, type SingleClient } from '../client/redis-client.js';
import { NODE_INFO_TIMEOUT_MS, SLOTS_RETRY_MS } from '../timing.js';
import {
  type Command,
  type CommandHost,
  type CommandRequest,
  type Destination,
  nodeOf,
  readReply,
  type Script,
  type ScriptCall,
  SingleCommand,
} from './command.js';
import { ifElsewhere } from './demotion.js';
import { adviceOn, readableText } from './error-advice.js';
import { isReadOnly, isRetryable, ofServer, storeError } from './redis-errors.js';
import { ServerId } from './server-id.js';
import { SilenceWatch } from './silence-watch.js';
import { warnOfFailedStart } from './start-warning.js';

/** A command that is a script; `echo`: see `ScriptCall`. */
export type ScriptRequest = CommandRequest & Pick<ScriptCall, 'echo'>;

const ignore = (): void => undefined;

/**
 * The connection of a store: sends scripts and commands when its client accepts them, never while the library would queue them, and
 * replaces a connection that does not answer. Every script can be resent safely.
 */
export class Connection implements CommandHost {
  /** Runs code that opens connections or sets timers, which would otherwise be in the async context of the caller. */
  readonly #inOwnContext = AsyncLocalStorage.snapshot();
  /** The deadlines of all commands. */
  readonly timers: TimerQueue;
  losses = 0;
  /** Changes after a connection to any node was lost: commands sent before may have been sent twice, or may arrive late. */
  epoch = 0;
  isClosed = false;
  /** Why no lock may be granted by the server for this key; null: no reason is known. */
  refusal: (key: string) => LockStoreError | null = () => null;
  /** Is called with the INFO of the server whenever `serverId` has been determined; with '' where INFO is refused. */
  onServerId: (info: string) => void = ignore;
  readonly #client: RedisClient;
  readonly #serverId: ServerId;
  readonly #silence: SilenceWatch;
  /** The commands without an answer so far. */
  readonly #commands = new FreshMap<Command, true>();
  /** Called at the next change. */
  readonly #waiting = new Set<() => void>();
  /** The last reported error of each client since it was ready. */
  readonly #reported = new WeakMap<RedisClient, string>();
  /** Whether the connection was lost, or could not be opened, and has not come back. */
  #isDown = false;
  /** The clients whose sockets are being closed. */
  readonly #closing = new WeakSet<RedisClient>();
  #isRefreshing = false;
  #stopWatching: (() => void) | null = null;
  /** Ends the wait for the first connection, which has a separate warning. */
  #stopWarning = ignore;
  #stopMove = ignore;

  constructor(
    client: RedisClient,
    readonly clock: Clock,
    private readonly reporter: Reporter,
  ) {
    this.#client = client;
    this.timers = new TimerQueue(clock);
    this.#serverId = new ServerId(reporter);
    this.#silence = new SilenceWatch(clock);
  }

  get isCluster(): boolean {
    return this.#client.isCluster;
  }

  /** The number of commands without an answer so far. */
  get underWay(): number {
    return this.#commands.size;
  }

  /** The client for commands, watched from then on. */
  liveClient(): RedisClient {
    this.#stopWatching ??= this.#watch(this.#client);
    return this.#client;
  }

  /** Why no command can be sent since the connection was lost; null while there is one, and before the first one. */
  get outage(): Error | null {
    const { lastError } = this.liveClient();
    return this.#isDown ? (lastError ?? new Error('the connection was lost')) : null;
  }

  /** Where commands go, without a password. */
  get address(): string {
    return this.#client.isCluster ? 'a cluster' : this.#client.address;
  }

  /** The run id of the server that the last reply came from; null while it is unknown or not reported, and for a cluster. */
  get serverId(): string | null {
    return this.#serverId.value;
  }

  // Commands

  /** Resolves with the script's reply as strings. @throws LockStoreError */
  run(call: ScriptCall): Promise<string[]> {
    const { operands, key, timeoutMs, echo } = call;
    return this.runScript({ subject: key, storageKey: String(operands[1]), timeoutMs, echo }, () => call);
  }

  /** The same for a script that is created each time that it is sent. @throws LockStoreError */
  runScript({ echo, ...request }: ScriptRequest, script: () => Script): Promise<string[]> {
    const read = (reply: unknown): [string[]] | null => {
      const one = readReply(echo, reply);
      return one && [one];
    };
    return new Promise((resolve, reject) => new SingleCommand(this, request, script, read, resolve, reject).start());
  }

  /** Sends any command under the deadline of the request. @throws LockStoreError */
  send<T>(send: () => Promise<T>, request: CommandRequest): Promise<T> {
    const read = (reply: unknown): [T] => [reply as T];
    return new Promise((resolve, reject) => new SingleCommand(this, request, send, read, resolve, reject).start());
  }

  /** Like `RedisClient.inOneWrite`. */
  inOneWrite(send: () => void): void {
    this.liveClient().inOneWrite(send);
  }

  // Start and end

  /** Connects a client that waits for its first command. Failures are retried, and reported by the commands. */
  connect(): void {
    this.#stopWarning = warnOfFailedStart(this.liveClient(), this.reporter);
    this.#connect();
  }

  async close(): Promise<void> {
    this.#stopWarning();
    this.isClosed = true;
    this.timers.close();
    (this.#stopWatching ??= ignore)();
    this.#serverId.forget();
    await this.#client.close();
    // ioredis never settles a command that it meant to resend.
    for (const command of this.#commands.keys()) command.fail(new Error('the connection was closed'));
  }

  #connect(): void {
    const client = this.liveClient();
    if (client.status === 'ready') this.identify();
    if (client.status !== 'idle') return;
    void this.#inOwnContext(() => client.connect().catch(ignore));
  }

  #watch(client: RedisClient): () => void {
    const stops = [
      client.on('closed', () => this.#onClose()),
      client.on('ready', () => this.#onReady(client)),
      client.on('ended', () => this.#changed()),
      client.on('error', (error) => this.#onError(error, client)),
    ];
    if (client.isCluster) stops.push(client.attachToNodes((node) => this.#watchNode(node)));
    return () => {
      for (const stop of stops) stop();
    };
  }

  #watchNode(node: SingleClient): () => void {
    const onReady = (): void => {
      this.#silence.onReady(node);
      this.#reported.delete(node);
      this.#changed();
    };
    const stops = [
      node.on('ready', onReady),
      node.on('closed', () => this.#beginEpoch()),
      node.on('error', (error) => this.#onError(ofServer(error, node.address), node)),
      // It has left the cluster: what waits for it may go to the node that has its slots now.
      node.on('ended', () => this.#changed()),
    ];
    return () => {
      for (const stop of stops) stop();
    };
  }

  #onReady(client: RedisClient): void {
    this.#silence.onReady(client);
    this.#isDown = false;
    this.#reported.delete(client);
    this.#stopWarning = ignore;
    this.identify();
    this.#changed();
  }

  #onClose(): void {
    this.losses += 1;
    this.#isDown = true;
    this.#serverId.forget();
    this.#beginEpoch();
  }

  /** Reports it unless it repeats the last one of that client: in an outage, each try fails alike. */
  #onError(error: Error, client: RedisClient): void {
    const text = readableText(error);
    const isRefusal = !isRetryable(error) && this.#stopWarning === ignore;
    if (this.#reported.get(client) !== text) {
      if (isRefusal) this.reporter.warn(refusedText(text, error));
      else this.reporter.debug(`Redis connection: ${text}`);
    }
    this.#reported.set(client, text);
    this.#changed();
  }

  #beginEpoch(): void {
    this.epoch += 1;
    this.#changed();
  }

  /** Whether commands can be sent has changed. */
  #changed(): void {
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    for (const callback of waiting) callback();
  }

  // The server

  /** Queries the run id and the facts of the server, unless just done: the answer comes before that of the next command. */
  identify(): void {
    const client = this.#client;
    if (client.isCluster || !client.isWritable) return;
    this.#serverId.ask(client, this.clock.now(), this.#onInfo);
  }

  /** The same function for all commands. */
  readonly #onInfo = (info: string, askedAt: number): void => {
    if (info !== '') this.#silence.onAnswer(this.#client, askedAt);
    this.onServerId(info);
  };

  /** Checks that the server of the present connection answers; otherwise the connection is replaced. */
  checkServer(): void {
    const client = this.liveClient();
    if (client.isCluster) return;
    const request = { subject: 'INFO', timeoutMs: NODE_INFO_TIMEOUT_MS };
    this.send(() => client.info('server'), request).catch(ignore);
  }

  /** Behind Sentinel: leaves a server that is no longer the master; `onMove` receives the connection that follows. */
  move(leadsToMaster: LeadsToMaster, onMove: (next: RedisClient) => void): void {
    const client = this.liveClient();
    if (client.isCluster) return;
    this.#stopMove();
    this.#stopMove = ifElsewhere(client, leadsToMaster, () => {
      if (!this.isClosed) this.#inOwnContext(() => client.reconnect());
      onMove(client);
    });
  }

  // Called by its commands

  /** Whether the client has ended, and stays closed. */
  get hasEnded(): boolean {
    return this.#client.status === 'ended' && this.#client.endsForGood;
  }

  onceChanged(callback: () => void): () => void {
    this.#waiting.add(callback);
    return () => this.#waiting.delete(callback);
  }

  lastErrorOf(to: Destination): Error | undefined {
    const client = this.#client;
    const node = client.isWritable ? nodeOf(client, to) : undefined;
    return node?.lastError ? ofServer(node.lastError, node.address) : client.lastError;
  }

  /** Whether a command is sent at once; if not, starts what may help. */
  isReady(to: Destination): boolean {
    const client = this.#client;
    if (client.status === 'idle') this.#connect();
    if (!client.isWritable) return false;
    if (client.isCluster) return this.#isNodeReady(client, to);
    this.identify();
    return true;
  }

  #isNodeReady(cluster: ClusterClient, to: Destination): boolean {
    const node = nodeOf(cluster, to);
    if (node?.status === 'idle') void this.#inOwnContext(() => node.connect().catch(ignore));
    if (!node && to.storageKey !== undefined) this.#refresh(cluster);
    return node ? node.isWritable : to.storageKey === undefined;
  }

  /** Asks for the master of a key. What waits for it looks again after a pause. */
  #refresh(cluster: ClusterClient): void {
    if (this.#isRefreshing) return;
    this.#isRefreshing = true;
    const next = (): void => {
      this.#isRefreshing = false;
      this.#changed();
    };
    this.#inOwnContext(() => cluster.refreshSlots(() => void this.clock.setTimer(next, SLOTS_RETRY_MS)));
  }

  /** A command that was sent at `sentAt` was answered, however late. */
  onAnswer(to: Destination, sentAt: number): void {
    this.#silence.onAnswer(nodeOf(this.#client, to) ?? this.#client, sentAt);
  }

  /** A command that was sent at `sentAt` has no answer in time: replaces the connection if it is dead. */
  onTimeout(to: Destination, sentAt: number, timeoutMs: number): void {
    const client = nodeOf(this.#client, to) ?? this.#client;
    this.#inOwnContext(() => this.#silence.onTimeout(client, sentAt, timeoutMs, () => this.replace(to)));
  }

  /** Replaces a connection that is dead, or that returns the replies of other commands; of a cluster, only the one to the node. */
  replace(to: Destination): void {
    const client = this.#client.isCluster ? nodeOf(this.#client, to) : this.#client;
    // One that is not ready yet has its own deadline. Once: it stays ready until its socket is closed, and each cut leaves a
    // listener there. After `close()`, nothing would close a new connection.
    if (this.isClosed || client?.status !== 'ready' || this.#closing.has(client)) return;
    this.#closing.add(client);
    client.once('closed', () => this.#closing.delete(client));
    this.#inOwnContext(() => client.reconnect());
  }

  onStart(command: Command): void {
    this.#commands.set(command, true);
  }

  onEnd(command: Command): void {
    this.#commands.delete(command);
  }

  failureOf(command: Command, error: Error): LockStoreError {
    const { subject, sentTo, wasSent } = command;
    // A master that became a replica keeps its connections: a new one finds the new master.
    if (sentTo && isReadOnly(error)) this.replace(sentTo);
    const client = this.#client;
    const isSingle = !client.isCluster && !client.endsForGood;
    return storeError(subject, error, { connectionError: this.lastErrorOf(command), wasSent, isSingle });
  }
}

const refusedText = (reason: string, error: Error): string =>
  `Redis grants no lock while it refuses the connection: ${reason}. ${adviceOn(error, false)}`;
