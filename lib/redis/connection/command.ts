import { setDeadline } from '../../core/clock.js';
import { MAX_CONNECTION_LOSSES } from '../timing.js';
import { type Destination, nodeOf } from './cluster-nodes.js';
import { type ConnectionHealth } from './connection-health.js';
import { type LiveClient } from './live-client.js';
import { type RedisClient, type SingleClient } from '../client/redis-client.js';
import { isLost, isRetryable, isUnsent } from './redis-errors.js';

/** What a command is for, and for how long its answer is waited for. */
export interface CommandRequest<T> {
  /** For errors. */
  readonly key: string;
  /** The storage key that the command is about, or none. */
  readonly storageKey?: string;
  /** The connection to a node of a cluster to send by, if not the one that serves the key. */
  readonly node?: SingleClient | undefined;
  readonly timeoutMs: number;
  /** Receives an answer that comes after the timeout. */
  readonly onLate?: (answer: T) => void;
  /** Receives a function that withdraws the command; it returns true when nothing was sent, and nothing will be. */
  readonly onStart?: ((withdraw: () => boolean) => void) | undefined;
}

export const withdrawnError = (): Error => new Error('it was withdrawn before it was sent');

const ignore = (): void => undefined;

/**
 * One command, from the wait for a connection to its answer, under a deadline of our own. It is sent only when there is a
 * connection, so that nothing is sent later; and again, within its time, when its connection was lost before the answer.
 */
export class Command<T> {
  wasSent = false;
  /** The connection that the answer is awaited from, or came from; and which node of a cluster. */
  sentBy: RedisClient | null = null;
  sentTo: Destination = {};
  /** When it was last sent, on the monotonic clock. */
  #sentAt = 0;
  #isOver = false;
  #stopWaiting = ignore;
  #reject: (error: Error) => void = ignore;

  constructor(
    private readonly request: CommandRequest<T>,
    private readonly live: LiveClient,
    private readonly health: ConnectionHealth,
  ) {}

  /** Resolves with the answer; rejects when it rejects, at the deadline, or as soon as the command fails otherwise. */
  settle(answer: Promise<T>): Promise<T> {
    const { timeoutMs, onLate, onStart } = this.request;
    return new Promise((resolve, reject) => {
      let isLate = false;
      const onTimeout = (): void => {
        isLate = true;
        if (this.sentBy) this.health.onTimeout(this.sentBy, this.sentTo, this.#sentAt, timeoutMs);
        this.fail(new Error(`no ${this.sentBy ? 'answer' : 'connection'} within ${Math.round(timeoutMs)} ms`));
      };
      const cancel = this.live.inOurContext(() => setDeadline(this.live.clock, onTimeout, timeoutMs));
      const end = (): void => {
        cancel();
        this.#isOver = true;
        this.#stopWaiting();
      };
      const onAnswer = (value: T): void => {
        end();
        if (isLate) onLate?.(value);
        else resolve(value);
      };
      this.#reject = (error) => {
        end();
        reject(error);
      };
      onStart?.(() => this.#withdraw());
      answer.then(onAnswer, this.#reject).catch(this.#reject);
    });
  }

  /** Ends the wait for the answer. */
  fail(error: Error): void {
    this.#reject(error);
  }

  #withdraw(): boolean {
    if (!this.wasSent) this.fail(withdrawnError());
    return !this.wasSent;
  }

  /** Sends it when there is a connection, and again when that was lost before the answer came, until the command is over. */
  async deliver<A>(clientNow: () => RedisClient, send: (client: RedisClient) => Promise<A>): Promise<A> {
    const { live, health, request } = this;
    let { losses } = live.state;
    for (;;) {
      const client = await this.#untilReady(clientNow, losses);
      ({ losses } = live.state);
      const [{ epoch }, { wasSent }] = [live, this];
      const node = nodeOf(client, request);
      const sentAt = live.clock.now();
      [this.wasSent, this.sentBy, this.sentTo, this.#sentAt] = [true, client, { node }, sentAt];
      try {
        const answer = await send(client);
        health.onAnswer(client, { node }, sentAt);
        return answer;
      } catch (error) {
        if (isUnsent(error as Error)) this.wasSent = wasSent;
        if (!isLost(error as Error) || this.#isOver) throw error;
        this.sentBy = null;
        // Without a loss, it would be sent again and again without a pause.
        if (live.epoch === epoch && live.isReady(client, request)) throw error;
      }
    }
  }

  /** `lossesBefore`: how many connections had been lost when the wait began. */
  async #untilReady(clientNow: () => RedisClient, lossesBefore: number): Promise<RedisClient> {
    const { live, request } = this;
    for (;;) {
      if (this.#isOver || live.isClosed) throw new Error('the connection was closed');
      const client = clientNow();
      if (live.isReady(client, request)) return client;
      if (client !== live.current) throw new Error('the connection was replaced');
      const { lastError, losses } = live.state;
      if (lastError && !isRetryable(lastError)) throw lastError;
      if (live.hasEnded || losses - lossesBefore >= MAX_CONNECTION_LOSSES) {
        throw lastError ?? new Error('the connection was lost');
      }
      await this.#untilChanged();
    }
  }

  #untilChanged(): Promise<void> {
    return new Promise((resolve) => {
      const stop = this.live.state.onceChanged(resolve);
      this.#stopWaiting = () => {
        stop();
        resolve();
      };
    });
  }
}
