import { type Clock } from '../../core/clock.js';
import { FreshMap } from '../../core/fresh-map.js';
import { type LockStoreError } from '../../core/lock.errors.js';
import { type Reporter } from '../../core/reporter.js';
import { type Outcome } from '../../core/store/callback-store.js';
import { type LeadsToMaster, type RedisClient } from '../client/redis-client.js';
import { Command, type CommandHost, type CommandRequest, type Delivery } from './command.js';
import { ConnectionHealth } from './connection-health.js';
import { LiveClient } from './live-client.js';
import { storeError } from './redis-errors.js';
import { type Echo, readLone } from './reply-reader.js';
import { type BatchCall, type Script, ScriptDelivery } from './script-delivery.js';
import { ifElsewhere } from './demotion.js';
import { NODE_INFO_TIMEOUT_MS } from '../timing.js';
import { SilenceWatch } from './silence-watch.js';
import { warnOfFailedStart } from './start-warning.js';

/** One script for one lock, and what to expect of its reply. */
export interface ScriptCall extends Script, Pick<CommandRequest, 'timeoutMs' | 'onStart'> {
  /** For errors. */
  readonly key: string;
  readonly echo?: Echo;
  /** Receives a reply that comes after the timeout. */
  onLate?(reply: string[]): void;
}

/**
 * Runs scripts and commands under deadlines of our own: ioredis may leave a promise pending forever (a half-open socket, a
 * lost reply). Every script may be sent again without harm.
 */
export class CommandRunner {
  readonly #live: LiveClient;
  readonly #health: ConnectionHealth;
  readonly #host: CommandHost;
  /** The commands that have no answer yet. */
  readonly #commands = new FreshMap<Command<any, any>, true>();
  /** Why no lock may be granted by the server for this key; null: nothing is known against it. */
  refusal: (key: string) => LockStoreError | null = () => null;
  #stopWarning = (): void => undefined;
  #stopMove = (): void => undefined;

  constructor(
    client: RedisClient,
    clock: Clock,
    private readonly reporter: Reporter,
  ) {
    const silence = new SilenceWatch(clock);
    this.#live = new LiveClient(client, clock, reporter, silence);
    this.#health = new ConnectionHealth(this.#live, silence);
    this.#host = {
      live: this.#live,
      health: this.#health,
      onEnd: (command) => this.#commands.delete(command),
      failureOf: (command, error) => this.#failureOf(command, error),
      refusal: (key) => this.refusal(key),
    };
  }

  get isCluster(): boolean {
    return this.#live.client.isCluster;
  }

  /** How many commands have no answer yet. */
  get underWay(): number {
    return this.#commands.size;
  }

  /** The client to send by. */
  liveClient(): RedisClient {
    return this.#live.current;
  }

  /** Why no command can be sent since the connection was lost; null while there is one, and before the first one. */
  get outage(): Error | null {
    this.liveClient();
    const { isDown, lastError } = this.#live.state;
    return isDown ? (lastError ?? new Error('the connection was lost')) : null;
  }

  /** Where commands go, for people: never a password. */
  get address(): string {
    const { current } = this.#live;
    return current.isCluster ? 'a cluster' : current.address;
  }

  /** Another number after a connection was lost, to any node: commands sent before may have been sent twice. */
  get epoch(): number {
    return this.#live.epoch;
  }

  /** The run id of the server that the last reply came from; null while it is unknown or not reported, and for a cluster. */
  get serverId(): string | null {
    return this.#live.serverId.value;
  }

  /** Is called with the INFO of the server each time that `serverId` has become known; with '' where INFO is refused. */
  set onServerId(callback: (info: string) => void) {
    this.#live.onServerId = callback;
  }

  /** Asks the server again what it is, unless it was asked a moment ago; `onServerId` receives the answer. */
  identify(): void {
    this.#live.identify();
  }

  /** Checks that the server of the present connection answers; otherwise the connection is replaced. */
  checkServer(): void {
    const client = this.#live.current;
    if (client.isCluster) return;
    const request = { subject: 'INFO', timeoutMs: NODE_INFO_TIMEOUT_MS };
    this.send(client, () => client.info('server'), request).catch(() => undefined);
  }

  /** Resolves with the script's reply as strings. @throws LockStoreError */
  run(call: ScriptCall): Promise<string[]> {
    const { operands, key, timeoutMs, echo } = call;
    return new Promise((resolve, reject) => {
      const one: BatchCall = {
        subject: key,
        storageKey: String(operands[1]),
        timeoutMs,
        toSend: () => call,
        read: (reply) => readLone(echo, reply),
        onStart: (command) => call.onStart?.(command),
        onLate: ([reply]) => call.onLate?.(reply!),
      };
      this.start(one, { resolve: ([reply]) => resolve(reply!), reject });
    });
  }

  /** Passes on the replies for all locks, or a `LockStoreError`. */
  start(call: BatchCall, outcome: Outcome<string[][], Error>): void {
    const delivery = new ScriptDelivery(call, outcome, this.#host);
    this.#start(call, delivery, delivery);
  }

  /** As `RedisClient.inOneWrite`. */
  inOneWrite(send: () => void): void {
    this.#live.current.inOneWrite(send);
  }

  /** Sends any command by a client of `liveClient`, under the deadline of the request. @throws LockStoreError */
  send<T>(client: RedisClient, send: () => Promise<T>, request: CommandRequest): Promise<T> {
    const delivery: Delivery<T, T> = { clientNow: () => client, send, read: (answer) => answer };
    return new Promise((resolve, reject) => this.#start(request, delivery, { resolve, reject }));
  }

  /** Behind Sentinel: leaves a server that is no longer the master; `onMove` receives the connection that follows. */
  move(leadsToMaster: LeadsToMaster, onMove: (next: RedisClient) => void): void {
    const client = this.#live.current;
    if (client.isCluster) return;
    this.#stopMove();
    this.#stopMove = ifElsewhere(client, leadsToMaster, () => {
      this.#health.onDemotion(client);
      onMove(this.#live.current);
    });
  }

  /** Connects a client of our own. Failures are retried, and reported by the commands. */
  connect(): void {
    this.#stopWarning = warnOfFailedStart(this.#live.current, this.reporter);
    this.#live.connect();
  }

  async close(): Promise<void> {
    this.#stopWarning();
    await this.#live.close();
    // ioredis never settles a command that it meant to send again.
    for (const command of this.#commands.keys()) command.fail(new Error('the connection was closed'));
  }

  #start<A, T>(request: CommandRequest, delivery: Delivery<A, T>, outcome: Outcome<T, LockStoreError>): void {
    const command = new Command(request, delivery, outcome, this.#host);
    this.#commands.set(command, true);
    command.start();
  }

  #failureOf({ wasSent, sentBy, sentTo, request }: Command<any, any>, error: Error): LockStoreError {
    if (sentBy) this.#health.onFailure(error, sentBy, sentTo);
    const { current, state } = this.#live;
    const isSingle = !current.isCluster && !current.endsForGood;
    return storeError(request.subject, error, { connectionError: state.lastError, wasSent, isSingle });
  }
}
