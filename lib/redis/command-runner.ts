import { type Redis, type RedisOptions } from 'ioredis';
import { type Clock } from '../core/clock.js';
import { LockStoreError } from '../core/lock.errors.js';
import { type Reporter } from '../core/reporter.js';
import { type Evaluation, evaluate } from './evaluate.js';
import { masterOf } from './key-groups.js';
import { type RedisClient, closeClient, duplicateClient, isCluster } from './redis-client.js';
import { connectionErrorOf, isReadOnly, storeError } from './redis-errors.js';
import { type IsThere, ifElsewhere } from './sentinel-watch.js';

/** How long a given client may be disconnected before locks go on without it. */
const PATIENCE_MS = 3_000;

/** One script to run, and what to expect of its reply. */
export interface ScriptCall extends Evaluation {
  /** For errors. */
  readonly key: string;
  readonly timeoutMs: number;
  /** What the reply's second element has to be: another one is the reply of another command. */
  readonly echo?: string;
  /** Hears a reply that comes after the command was given up. */
  readonly onLate?: (reply: string[]) => void;
}

/** What a command is for, and for how long it is waited. */
interface Asked<T> {
  /** For errors. */
  readonly key: string;
  /** The storage key that the command is about, or none. */
  readonly storageKey?: string;
  readonly timeoutMs: number;
  /** Hears an answer that comes after the command was given up. */
  readonly onLate?: (answer: T) => void;
}

/**
 * Runs scripts under deadlines of our own: ioredis may leave a promise pending for ever (a half-open socket, a lost
 * reply). A command without an answer is given up, and its socket replaced; every script may be sent again.
 */
export class CommandRunner {
  #client: RedisClient;
  #closes = 0;
  #isClosed = false;
  /** Since when the client is not connected. */
  #downSince: number | null = null;
  /** Since when it is connected to a replica, which writes nothing. */
  #readOnlySince: number | null = null;
  /** Rejects each command that has no answer yet. */
  readonly #underWay = new Set<(error: Error) => void>();
  /** Connections that end because of us. */
  readonly #ending = new WeakSet<RedisClient>();
  readonly #onClose = (): void => {
    this.#ending.delete(this.#client);
    this.#closes += 1;
    this.#downSince ??= this.clock.now();
  };
  readonly #onNodeLost = (): void => {
    this.#closes += 1;
  };
  readonly #onReady = (): void => {
    this.#downSince = null;
    this.#readOnlySince = null;
    this.#lastError = undefined;
  };
  /** Why the last connection failed, while there is none. */
  #lastError: Error | undefined;
  readonly #onError = (error: Error): void => {
    this.#lastError = connectionErrorOf(error);
    this.reporter.debug(`Redis connection: ${error.message}`);
  };

  /** `owned`: the client is ours to cut and to close. */
  constructor(
    client: RedisClient,
    private owned: boolean,
    private readonly clock: Clock,
    private readonly reporter: Reporter,
  ) {
    this.#client = client;
    this.#watch(client);
  }

  /**
   * The client to send by. A given one that gave up for ever, or that tries again only after a long time, as its application
   * decided, is left for a connection of our own.
   */
  liveClient(): RedisClient {
    const awaySince = this.#downSince ?? this.#readOnlySince;
    const isLong = awaySince !== null && this.clock.now() - awaySince > PATIENCE_MS;
    if (!this.owned && (isLong || this.#client.status === 'end')) this.#replaceSocket(this.#client);
    return this.#client;
  }

  /** Why no command can be sent now: the connection was lost, and is not back; null when there is one, or not yet. */
  get outage(): Error | null {
    this.liveClient();
    return this.#downSince === null ? null : (this.#lastError ?? new Error('the connection was lost'));
  }

  /** Where commands go, for people: never a password. */
  get address(): string {
    const { host, port, path, sentinels, name } = this.#client.options as RedisOptions;
    return sentinels ? `sentinel ${name}` : (path ?? `${host}:${port}`);
  }

  /** Another number after a connection was lost: commands sent before may have been sent twice, by ioredis itself. */
  get epoch(): number {
    return this.#closes;
  }

  /** Gives the script's reply as strings. */
  async run(call: ScriptCall): Promise<string[]> {
    const { operands, key, timeoutMs, echo, onLate } = call;
    const client = this.liveClient();
    const isOurs = (reply: unknown): reply is unknown[] =>
      Array.isArray(reply) && (echo === undefined || String(reply[1]) === echo);
    const storageKey = String(operands[1]);
    const reply = await this.ask<unknown>(client, () => evaluate(client, call), {
      key,
      storageKey,
      timeoutMs,
      onLate: (late) => isOurs(late) && onLate?.(late.map(String)),
    });
    if (isOurs(reply)) return reply.map(String);
    this.#replaceSocket(client, storageKey);
    throw new LockStoreError(`Redis answered another command than the one for the lock "${key}".`, { key });
  }

  /** Any command to a client of `liveClient`, under its deadline. @throws LockStoreError */
  async ask<T>(client: RedisClient, send: () => Promise<T>, asked: Asked<T>): Promise<T> {
    const { key, storageKey, timeoutMs, onLate } = asked;
    try {
      const answer = await this.#within(timeoutMs, send(), () => this.#replaceSocket(client, storageKey), onLate);
      this.#readOnlySince = null;
      return answer;
    } catch (error) {
      if (isReadOnly(error)) this.#leaveReplica(client, storageKey);
      throw storeError(key, error, this.#lastError);
    }
  }

  /** Behind Sentinel: leaves the old master; `onMove` is told of the connection that follows. */
  move(isThere: IsThere, onMove: (next: RedisClient) => void): void {
    const client = this.#client;
    ifElsewhere(client as Redis, isThere, () => {
      if (client === this.#client && this.owned) client.disconnect(true);
      else this.#replaceSocket(client, '', 'is connected to a server that is no master any more');
      onMove(this.#client);
    });
  }

  /** Connects a client of ours; what fails is tried again by ioredis, and told by the commands. */
  connect(): void {
    if (this.owned && this.#client.status === 'wait') this.#client.connect().catch(() => undefined);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#unwatch();
    if (this.owned) await closeClient(this.#client);
    // ioredis never settles a command that it meant to send again.
    for (const fail of this.#underWay) fail(new Error('the connection was closed'));
  }

  #within<T>(timeoutMs: number, answer: Promise<T>, onTimeout: () => void, onLate?: (late: T) => void): Promise<T> {
    return new Promise((resolve, reject) => {
      let givenUp = false;
      const cancel = this.clock.setTimer(() => {
        givenUp = true;
        onTimeout();
        fail(new Error(`no answer within ${Math.round(timeoutMs)} ms`));
      }, timeoutMs);
      const end = (): void => {
        cancel();
        this.#underWay.delete(fail);
      };
      const settle = (value: T): void => {
        end();
        if (givenUp) onLate?.(value);
        else resolve(value);
      };
      const fail = (error: Error): void => {
        end();
        reject(error);
      };
      this.#underWay.add(fail);
      answer.then(settle, fail).catch(fail);
    });
  }

  /** The master was made a replica, and its connection stayed: connecting again finds the new one. */
  #leaveReplica(client: RedisClient, storageKey?: string): void {
    if (this.owned) this.#replaceSocket(client, storageKey);
    else this.#readOnlySince ??= this.clock.now();
  }

  #replaceSocket(client: RedisClient, storageKey = '', why = 'does not answer'): void {
    // After the close nobody would ever close a new connection.
    if (this.#isClosed || client !== this.#client) return;
    if (this.owned) {
      if (client.status === 'ready') this.#cut(client, storageKey);
      return;
    }
    // A given client may be stuck behind somebody's blocking command, and is not ours to cut.
    this.reporter.warn(`The given Redis client ${why}; locks continue on a connection of their own.`);
    this.#unwatch();
    this.#client = duplicateClient(client);
    this.owned = true;
    this.#watch(this.#client);
    // What was sent on the old connection may still arrive, as after a lost one.
    this.#closes += 1;
  }

  /** Of a cluster, only the connection to the node that serves the key: the others answer. */
  #cut(client: RedisClient, storageKey = ''): void {
    const node = isCluster(client) && masterOf(client, storageKey);
    const cut = node || client;
    // Once: it is ready until its socket is closed, and each cut leaves a listener there.
    if (this.#ending.has(cut)) return;
    this.#ending.add(cut);
    cut.disconnect(!node);
  }

  /** A cluster as a whole closes seldom; a lost node is told by its own event. */
  #watch(client: RedisClient): void {
    client.on('close', this.#onClose);
    client.on('ready', this.#onReady);
    if (isCluster(client)) client.on('-node', this.#onNodeLost);
    if (this.owned) client.on('error', this.#onError);
  }

  #unwatch(): void {
    this.#client.off('close', this.#onClose);
    this.#client.off('ready', this.#onReady);
    this.#client.off('-node', this.#onNodeLost);
  }
}
