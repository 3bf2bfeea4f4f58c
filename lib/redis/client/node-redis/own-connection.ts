import { unsentError } from '../connection-errors.js';
import { type ClientParts } from '../client-library.js';
import { type LeadsToMaster, type MasterWatch, type SingleClient } from '../redis-client.js';
import { type ServerAddress } from '../server-address.js';
import { ConnectionTry, type MakeClient } from './connection-try.js';
import { OwnClient } from './own-client.js';
import { errorOfCommand, sendBy } from './sending.js';

/** What a connection leads to, and how a client for it is made. */
export interface Target {
  readonly make: MakeClient;
  /** Null for a Unix socket. */
  readonly peer: ServerAddress | null;
  /** Behind Sentinel: a server that is a replica is left before it gets a command, and reported. */
  readonly onReplica?: () => void;
}

/** How a connection of ours is opened, each time that it is. */
export interface ConnectionPlan {
  /** For people: never a password. */
  readonly address: string;
  readonly database: number;
  /** Whether it stays closed once it has ended. */
  readonly endsForGood: boolean;
  readonly connectTimeout: number;
  /** After so many failed tries in a row, it ends; without a number, never. */
  readonly maxFailures?: number;
  /** Where it leads now: behind Sentinel, a question. `signal`: the answer is of no use any more. */
  readonly target: Target | ((signal: AbortSignal) => Promise<Target>);
  /** The plan of one more connection, where that is another one. */
  readonly again?: () => ConnectionPlan;
  readonly watchMaster?: (onMaster: (leadsToMaster: LeadsToMaster) => void) => MasterWatch;
}

/** A connection of our own: one socket after the other, each with a client of node-redis. */
export class OwnConnection extends OwnClient implements SingleClient {
  readonly isCluster = false;
  #try: ConnectionTry | null = null;
  #peer: ServerAddress | null = null;
  #search: AbortController | null = null;
  #channels = new Set<string>();

  constructor(
    private readonly plan: ConnectionPlan,
    parts: ClientParts,
  ) {
    super(parts);
  }

  /** Connects by itself, as duplicates do. */
  static opened(plan: ConnectionPlan, parts: ClientParts): OwnConnection {
    const connection = new OwnConnection(plan, parts);
    connection.begin();
    return connection;
  }

  get isWritable(): boolean {
    return this.status === 'ready' && this.#try!.client.isReady;
  }

  get endsForGood(): boolean {
    return this.plan.endsForGood;
  }

  get address(): string {
    return this.plan.address;
  }

  get database(): number {
    return this.plan.database;
  }

  get peer(): ServerAddress | null {
    return this.status === 'connected' || this.status === 'ready' ? this.#peer : null;
  }

  reconnect(): void {
    if (this.#try) this.#try.end();
    else if (this.status === 'closed') this.begin();
  }

  duplicate(): OwnConnection {
    return OwnConnection.opened({ ...(this.plan.again?.() ?? this.plan), endsForGood: false }, this.parts);
  }

  openSubscriber(): OwnConnection {
    return this.duplicate();
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
      await client.subscribe(channel, (text, from) => this.events.emit('message', from, text));
      channels.add(channel);
    } catch (error) {
      throw errorOfCommand(error as Error);
    }
  }

  protected override open(): void {
    const { target } = this.plan;
    if (typeof target === 'function') void this.#searchFor(target);
    else this.#openAt(target);
  }

  protected override drop(): void {
    this.#search?.abort();
    const one = this.#try;
    this.#try = null;
    one?.end();
  }

  async #searchFor(find: (signal: AbortSignal) => Promise<Target>): Promise<void> {
    const search = (this.#search = new AbortController());
    try {
      const target = await find(search.signal);
      if (!search.signal.aborted) this.#openAt(target);
    } catch (error) {
      if (!search.signal.aborted) this.fail(error as Error);
    }
  }

  #openAt({ make, peer, onReplica }: Target): void {
    this.#peer = peer;
    this.#channels = new Set();
    const { connectTimeout } = this.plan;
    try {
      const one: ConnectionTry = new ConnectionTry(make, connectTimeout, this.parts.clock, {
        onConnected: () => this.become('connected'),
        onReady: () => this.become('ready'),
        onReplica,
        onOver: (error) => this.#try === one && this.#onLoss(error),
      });
      this.#try = one;
      one.start();
    } catch (error) {
      // The application may have changed the options of its client since.
      this.#onLoss(error as Error);
    }
  }

  #onLoss(error: Error | undefined): void {
    this.#try = null;
    this.lose(error, this.endsForGood || this.failures >= (this.plan.maxFailures ?? Infinity));
  }
}
