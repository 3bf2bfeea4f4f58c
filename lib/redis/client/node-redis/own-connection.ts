import { unsentError } from '../connection-errors.js';
import { type ClientParts } from '../client-library.js';
import { type ClientEvents, type ClientStatus, type MasterWatch, type SingleClient } from '../redis-client.js';
import { type LeadsToMaster } from '../redis-client.js';
import { type ServerAddress } from '../server-address.js';
import { reconnectDelayMs } from '../../timing.js';
import { ClientEmitter } from './client-emitter.js';
import { ConnectionTry, type MakeClient } from './connection-try.js';
import { NodeRedisCommands } from './node-redis-commands.js';
import { errorOfCommand, sendBy } from './sending.js';

/** What a connection leads to, and how a client for it is made. */
export interface Target {
  readonly make: MakeClient;
  /** Null for a Unix socket. */
  readonly peer: ServerAddress | null;
}

/** How a connection of ours is opened, each time that it is. */
export interface ConnectionPlan {
  /** For people: never a password. */
  readonly address: string;
  readonly database: number;
  readonly keyPrefix: string;
  /** Whether it stays closed once it has ended. */
  readonly endsForGood: boolean;
  readonly connectTimeout: number;
  /** Where it leads now: behind Sentinel, a question. `signal`: the answer is of no use any more. */
  readonly target: Target | ((signal: AbortSignal) => Promise<Target>);
  readonly watchMaster?: (onMaster: (leadsToMaster: LeadsToMaster) => void) => MasterWatch;
}

/** A connection of our own: one socket after the other, each with a client of node-redis. */
export class OwnConnection extends NodeRedisCommands implements SingleClient {
  readonly isCluster = false;
  readonly #events = new ClientEmitter();
  #status: ClientStatus = 'idle';
  #try: ConnectionTry | null = null;
  #peer: ServerAddress | null = null;
  #search: AbortController | null = null;
  #channels = new Set<string>();
  #failures = 0;
  #supervisors = 0;
  #cancelRetry = (): void => undefined;

  constructor(
    private readonly plan: ConnectionPlan,
    private readonly parts: ClientParts,
  ) {
    super();
  }

  get status(): ClientStatus {
    return this.#status;
  }

  get isWritable(): boolean {
    return this.#status === 'ready' && this.#try!.client.isReady;
  }

  get endsForGood(): boolean {
    return this.plan.endsForGood;
  }

  get keyPrefix(): string {
    return this.plan.keyPrefix;
  }

  get address(): string {
    return this.plan.address;
  }

  get database(): number {
    return this.plan.database;
  }

  get peer(): ServerAddress | null {
    return this.#status === 'connected' || this.#status === 'ready' ? this.#peer : null;
  }

  on<E extends keyof ClientEvents>(event: E, listener: (...args: ClientEvents[E]) => void): () => void {
    return this.#events.on(event, listener);
  }

  once(event: keyof ClientEvents, listener: () => void): () => void {
    return this.#events.once(event, listener);
  }

  connect(): Promise<void> {
    if (this.#status === 'ready') return Promise.resolve();
    const ready = this.#events.untilReady();
    if (this.#status === 'idle' || this.#status === 'ended') this.#begin();
    return ready;
  }

  reconnect(): void {
    if (this.#try) this.#try.end();
    else if (this.#status === 'closed') this.#begin();
  }

  disconnect(): void {
    if (this.#status === 'ended') return;
    this.#cancelRetry();
    this.#search?.abort();
    const hadSocket = this.#drop();
    this.#status = 'ended';
    if (hadSocket) this.#events.emit('closed');
    this.#events.emit('ended');
  }

  async close(): Promise<void> {
    this.disconnect();
  }

  /** Each socket has its deadlines anyway. */
  supervise(): () => void {
    this.#supervisors += 1;
    const stopReopening = this.on('ended', () => {
      if (!this.endsForGood) this.#retry();
    });
    return () => {
      stopReopening();
      this.#supervisors -= 1;
      if (this.#supervisors === 0 && this.#status === 'ended') this.#cancelRetry();
    };
  }

  duplicate(): OwnConnection {
    const copy = new OwnConnection({ ...this.plan, endsForGood: false }, this.parts);
    copy.#begin();
    return copy;
  }

  openSubscriber(): OwnConnection {
    return this.duplicate();
  }

  /** Connects by itself, as duplicates do. */
  static opened(plan: ConnectionPlan, parts: ClientParts): OwnConnection {
    const connection = new OwnConnection(plan, parts);
    connection.#begin();
    return connection;
  }

  watchMaster(onMaster: (leadsToMaster: LeadsToMaster) => void): MasterWatch | null {
    return this.plan.watchMaster?.(onMaster) ?? null;
  }

  /** Sends any command. */
  override send(args: readonly string[]): Promise<unknown> {
    if (!this.isWritable) return Promise.reject(unsentError());
    const { client, loss } = this.#try!;
    return sendBy(client, args, loss);
  }

  async subscribe(channel: string): Promise<void> {
    // node-redis answers by itself when it is subscribed: nothing would show that the server is still there.
    if (this.#channels.has(channel)) return void (await this.send(['ping']));
    if (!this.isWritable) throw unsentError();
    const [{ client }, channels] = [this.#try!, this.#channels];
    try {
      await client.subscribe(channel, (text, from) => this.#events.emit('message', from, text));
      channels.add(channel);
    } catch (error) {
      throw errorOfCommand(error as Error);
    }
  }

  #begin(): void {
    this.#cancelRetry();
    this.#status = 'connecting';
    this.#events.emit('connecting');
    const { target } = this.plan;
    if (typeof target === 'function') void this.#searchFor(target);
    else this.#open(target);
  }

  async #searchFor(find: (signal: AbortSignal) => Promise<Target>): Promise<void> {
    const search = (this.#search = new AbortController());
    try {
      const target = await find(search.signal);
      if (!search.signal.aborted) this.#open(target);
    } catch (error) {
      if (search.signal.aborted) return;
      // No connection began that could be lost.
      this.#status = 'closed';
      this.#events.emit('error', error as Error);
      this.#retry();
    }
  }

  #open({ make, peer }: Target): void {
    this.#peer = peer;
    this.#channels = new Set();
    const { connectTimeout } = this.plan;
    try {
      const one: ConnectionTry = new ConnectionTry(make, connectTimeout, this.parts.clock, {
        onConnected: () => this.#become('connected'),
        onReady: () => {
          this.#failures = 0;
          this.#become('ready');
        },
        onOver: (error) => this.#try === one && this.#onLoss(error),
      });
      this.#try = one;
      one.start();
    } catch (error) {
      // The application may have changed the options of its client since.
      this.#onLoss(error as Error);
    }
  }

  #become(status: 'connected' | 'ready'): void {
    this.#status = status;
    this.#events.emit(status);
  }

  #onLoss(error: Error | undefined): void {
    this.#try = null;
    this.#status = this.endsForGood ? 'ended' : 'closed';
    if (error) this.#events.emit('error', error);
    this.#events.emit('closed');
    if (this.endsForGood) this.#events.emit('ended');
    else if (this.#status === 'closed') this.#retry();
  }

  /** Ends the socket, as if it were lost; returns whether there was one. */
  #drop(): boolean {
    const one = this.#try;
    this.#try = null;
    one?.end();
    return one !== null;
  }

  #retry(): void {
    this.#cancelRetry();
    this.#failures += 1;
    const begin = (): void => {
      if (this.#status === 'closed' || this.#status === 'ended') this.#begin();
    };
    this.#cancelRetry = this.parts.clock.setTimer(begin, reconnectDelayMs(this.#failures));
  }
}
