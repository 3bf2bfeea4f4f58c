import { setDeadline } from '../../core/clock.js';
import { type Outcome } from '../../core/store/callback-store.js';
import { type LockStoreError } from '../../core/lock.errors.js';
import { type Subject } from '../../core/store/subject.js';
import { MAX_CONNECTION_LOSSES } from '../timing.js';
import { type Destination, nodeOf } from './cluster-nodes.js';
import { type ConnectionHealth } from './connection-health.js';
import { type LiveClient } from './live-client.js';
import { type RedisClient, type SingleClient } from '../client/redis-client.js';
import { isLost, isRetryable, isUnsent } from './redis-errors.js';

/** What a command is for, and for how long its answer is waited for. */
export interface CommandRequest {
  /** For errors. */
  readonly subject: Subject;
  /** The storage key that the command is about, or none. */
  readonly storageKey?: string;
  /** The connection to a node of a cluster to send by, if not the one that serves the key. */
  readonly node?: SingleClient | undefined;
  readonly timeoutMs: number;
  onStart?(command: Withdrawable): void;
}

/** What can be withdrawn until it is sent. */
export interface Withdrawable {
  /** Returns true when nothing was sent, and nothing will be. */
  withdraw(): boolean;
}

export const withdrawnError = (): Error => new Error('it was withdrawn before it was sent');

/** How a command is sent, and what its answer means. */
export interface Delivery<A, T> {
  /** The client to send by. */
  clientNow(): RedisClient;
  send(client: RedisClient): Promise<A>;
  /** Whether it is sent again after this error: in another way, from now on. Otherwise it has failed. */
  changesAfter?(error: Error): boolean;
  read(answer: A, sentBy: RedisClient, sentTo: Destination): T;
  /** Receives what was read of an answer that comes after the timeout. */
  onLate?(answer: T): void;
}

/** What the commands of one client share. */
export interface CommandHost {
  readonly live: LiveClient;
  readonly health: ConnectionHealth;
  /** A command was answered, or has failed. */
  onEnd(command: Command<any, any>): void;
  /** Why no lock may be granted by the server for this key. */
  refusal(key: string): LockStoreError | null;
  /** The error that its caller receives. */
  failureOf(command: Command<any, any>, error: Error): LockStoreError;
}

/** By which client a command goes, and to which node of a cluster: the one that serves the storage key, as far as it is known. */
interface Route extends Destination {
  readonly client: RedisClient;
}

const ignore = (): void => undefined;

/**
 * One command, from the wait for a connection to its answer, under a deadline of our own. It is sent only when there is a
 * connection, so that nothing is sent later; and again, within its time, when its connection was lost before the answer.
 */
export class Command<A, T> implements Withdrawable {
  wasSent = false;
  /** The connection that the answer is awaited from, or came from; and which node of a cluster. */
  sentBy: RedisClient | null = null;
  sentTo: Destination = {};
  /** When it was last sent, on the monotonic clock. */
  #sentAt = 0;
  #isOver = false;
  /** It is over because its time was. */
  #isLate = false;
  /** How many connections had been lost when the wait for one began. */
  #lossesBefore = 0;
  #cancelDeadline = ignore;
  #stopWaiting = ignore;

  constructor(
    readonly request: CommandRequest,
    private readonly delivery: Delivery<A, T>,
    private readonly outcome: Outcome<T, LockStoreError>,
    private readonly host: CommandHost,
  ) {}

  /** Resolves with the answer; rejects when it rejects, at the deadline, or as soon as the command fails otherwise. */
  start(): void {
    const { request, host } = this;
    this.#cancelDeadline = setDeadline(host.live.timers, () => this.#onTimeout(), request.timeoutMs);
    request.onStart?.(this);
    this.#begin();
  }

  /** Ends the wait for the answer. */
  fail(error: Error): void {
    if (this.#isOver) return;
    this.#end();
    this.outcome.reject(this.host.failureOf(this, error));
  }

  withdraw(): boolean {
    if (!this.wasSent) this.fail(withdrawnError());
    return !this.wasSent;
  }

  #end(): void {
    this.#isOver = true;
    this.#cancelDeadline();
    this.#stopWaiting();
    this.host.onEnd(this);
  }

  #onTimeout(): void {
    const { timeoutMs } = this.request;
    this.#isLate = true;
    if (this.sentBy) this.host.health.onTimeout(this.sentBy, this.sentTo, this.#sentAt, timeoutMs);
    this.fail(new Error(`no ${this.sentBy ? 'answer' : 'connection'} within ${Math.round(timeoutMs)} ms`));
  }

  #begin(): void {
    this.#lossesBefore = this.host.live.state.losses;
    this.#deliver();
  }

  /** Sends it when there is a connection, and again when that was lost before the answer came, until the command is over. */
  #deliver(): void {
    const { request, delivery } = this;
    const { live } = this.host;
    try {
      const route = this.#readyRoute();
      if (!route) return this.#whenChanged(() => this.#deliver());
      this.#lossesBefore = live.state.losses;
      const { client } = route;
      const [{ epoch }, { wasSent }] = [live, this];
      const sentAt = live.clock.now();
      [this.wasSent, this.sentBy, this.sentTo, this.#sentAt] = [true, client, route, sentAt];
      const onError = (error: Error): void => {
        if (isUnsent(error)) this.wasSent = wasSent;
        if (!isLost(error) || this.#isOver) return this.#onError(error);
        this.sentBy = null;
        // Without a loss, it would be sent again and again without a pause.
        if (live.epoch === epoch && live.isReady(client, request)) return this.fail(error);
        this.#deliver();
      };
      sendBy(client, delivery).then((answer) => this.#onAnswer(answer, route, sentAt), onError);
    } catch (error) {
      this.fail(error as Error);
    }
  }

  #onAnswer(answer: A, route: Route, sentAt: number): void {
    try {
      this.host.health.onAnswer(route.client, route, sentAt);
      const value = this.delivery.read(answer, route.client, route);
      if (this.#isLate) return this.delivery.onLate?.(value);
      if (this.#isOver) return;
      this.#end();
      this.outcome.resolve(value);
    } catch (error) {
      this.fail(error as Error);
    }
  }

  #onError(error: Error): void {
    if (!this.#isOver && this.delivery.changesAfter?.(error)) this.#begin();
    else this.fail(error);
  }

  /** Returns null while it has to be waited for. @throws Error when that is of no use */
  #readyRoute(): Route | null {
    const { request } = this;
    const { live } = this.host;
    if (this.#isOver || live.isClosed) throw new Error('the connection was closed');
    const client = this.delivery.clientNow();
    const route: Route = { client, node: nodeOf(client, request), storageKey: request.storageKey };
    if (live.isReady(client, route)) return route;
    if (client !== live.current) throw new Error('the connection was replaced');
    if (live.refusedDatabase) throw live.refusedDatabase;
    const { lastError, losses } = live.state;
    if (lastError && !isRetryable(lastError)) throw lastError;
    if (live.hasEnded || losses - this.#lossesBefore >= MAX_CONNECTION_LOSSES) {
      throw lastError ?? new Error('the connection was lost');
    }
    return null;
  }

  /** Calls back after the next change of the connection has been completed. */
  #whenChanged(callback: () => void): void {
    const changed = new Promise<void>((resolve) => {
      const stop = this.host.live.state.onceChanged(resolve);
      this.#stopWaiting = () => {
        stop();
        resolve();
      };
    });
    void changed.then(callback);
  }
}

/** A client may also throw. */
function sendBy<A>(client: RedisClient, delivery: Delivery<A, unknown>): Promise<A> {
  try {
    return delivery.send(client);
  } catch (error) {
    return Promise.reject(error);
  }
}
