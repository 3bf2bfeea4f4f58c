import { AsyncLocalStorage } from 'node:async_hooks';
import { type Redis } from 'ioredis';
import { type Clock, setDeadline } from '../../core/clock.js';
import { type WakeUpListener } from '../../core/store/lock-store.js';
import { type Reporter, withoutRepeats } from '../../core/reporter.js';
import {
  type RedisClient,
  closeClient,
  isCluster,
  openSubscriber,
  reconnectDelayMs,
} from '../connection/redis-client.js';
import { isRetryable } from '../connection/redis-errors.js';
import { readableText } from '../connection/error-advice.js';
import { type IsThere, ifElsewhere } from '../connection/sentinel-watch.js';
import { readServerId } from '../connection/server-id.js';
import { supervise } from '../connection/supervise.js';

/** How long the server may take to answer the subscriber, before another connection is made. */
const ANSWER_MS = 2_000;

/** How often the server is asked whether it still hears the subscriber, while messages are expected. */
const BEAT_MS = 1_000;

/** For how long messages are expected by somebody who waits and polls: a little more than two polls. */
const EXPECT_MS = 5_000;

/** The longest pause before the subscriber moves again, and the time without a move after which the first is at once. */
const MOVE_PAUSE_MS = 10_000;
const SETTLED_MS = 60_000;

/** By what commands are sent, and to which server. */
interface Commands {
  liveClient(): RedisClient;
  readonly serverId: string | null;
}

/**
 * The one subscriber connection of a store. Messages are `granted <attempt> <token> <now> <remainingMs>`,
 * `wake <attempt>` (see scripts/queue.ts) or `revoked <attempt>` (see scripts/force-release.ts). Pub/sub loses messages
 * while it is not connected, so everybody who waits asks once after each subscription. It is where the commands are: it
 * moves when they do. On a cluster it is a connection of our own to one node: ioredis does not tell when its own moves to
 * another node.
 */
export class WakeUpChannel {
  readonly #inOurContext = AsyncLocalStorage.snapshot();
  #subscriber: Redis | null = null;
  #stopSupervision: () => void = () => undefined;
  #serverId: string | null = null;
  #failures = 0;
  #moves = 0;
  #movedAt = -Infinity;
  /** Since when messages come; null while they do not. */
  #listeningSince: number | null = null;
  #expectedUntil = -Infinity;
  #refused = false;
  #hasListened = false;
  #isClosed = false;
  #cancelConnect: (() => void) | undefined;
  #isBeating = false;
  #cancelBeat: (() => void) | undefined;
  #cancelDeadline: (() => void) | undefined;
  readonly #debug = withoutRepeats((line) => this.reporter.debug(line));

  constructor(
    private readonly commands: Commands,
    private readonly name: string,
    private readonly listener: WakeUpListener,
    private readonly clock: Clock,
    private readonly reporter: Reporter,
  ) {
    this.#connect();
  }

  /** The run id of the server whose messages come now; null while none do or it is not known, and for a cluster. */
  get serverId(): string | null {
    return this.#serverId;
  }

  /** Somebody waits: for some seconds the server is asked whether it still hears the subscriber, which is replaced if not. */
  expectMessages(): void {
    this.#expectedUntil = this.clock.now() + EXPECT_MS;
    if (this.#isBeating || this.#isClosed) return;
    this.#isBeating = true;
    this.#beatLater();
  }

  /** Moves when commands go to another server than the one that is listened to, as far as both are known. */
  follow(): void {
    const [here, there] = [this.#serverId, this.commands.serverId];
    if (here !== null && there !== null && here !== there) this.replace();
  }

  /**
   * Listens by a new connection, and tells a gap then. `sentAt`: when the command was sent whose reply says that nobody
   * listens; what was subscribed since is unknown to it.
   */
  replace(sentAt = Infinity): void {
    if (this.#isClosed || this.#listeningSince === null || this.#listeningSince > sentAt) return;
    const now = this.clock.now();
    this.#moves = now - this.#movedAt > SETTLED_MS ? 0 : this.#moves + 1;
    this.#movedAt = now;
    this.#leave();
    this.#connectIn(this.#moves === 0 ? 0 : Math.min(50 * 2 ** this.#moves, MOVE_PAUSE_MS));
  }

  /** Behind Sentinel: leaves a server that is no master any more. */
  move(isThere: IsThere): void {
    const subscriber = this.#subscriber;
    if (subscriber) ifElsewhere(subscriber, isThere, () => subscriber === this.#subscriber && this.#connectLater());
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    for (const cancel of [this.#cancelConnect, this.#cancelBeat, this.#cancelDeadline]) cancel?.();
    this.#stopSupervision();
    if (this.#subscriber) await closeClient(this.#subscriber);
  }

  #connect(): void {
    this.#inOurContext(() => {
      const subscriber = openSubscriber(this.commands.liveClient());
      this.#subscriber = subscriber;
      if (!subscriber) return this.#connectLater();
      this.#stopSupervision = supervise(subscriber, this.clock);
      subscriber.on('error', (error: Error) => this.#debug(`Redis subscriber: ${readableText(error)}`));
      const on = (event: string, react: (...args: any[]) => void): void =>
        void subscriber.on(event as 'end', (...args) => subscriber === this.#subscriber && react(...args));
      on('message', (_channel: string, message: string) => this.#onMessage(message));
      on('ready', () => void this.#listen(subscriber));
      on('close', () => this.#onClose());
      on('end', () => this.#connectLater());
    });
  }

  #connectLater(): void {
    if (this.#isClosed) return;
    this.#leave();
    this.#failures += 1;
    this.#connectIn(reconnectDelayMs(this.#failures));
  }

  #connectIn(delayMs: number): void {
    this.#cancelConnect = this.#inOurContext(() => this.clock.setTimer(() => this.#connect(), delayMs));
  }

  #onClose(): void {
    this.#listeningSince = null;
    this.#serverId = null;
    this.#cancelDeadline?.();
  }

  #leave(): void {
    const subscriber = this.#subscriber;
    this.#onClose();
    this.#stopSupervision();
    this.#subscriber = null;
    subscriber?.disconnect(false);
  }

  async #listen(subscriber: Redis): Promise<void> {
    const answered = this.#expectAnswer();
    try {
      // Known before any message comes. Where it is refused, it stays unknown.
      const serverId = isCluster(this.commands.liveClient())
        ? null
        : await readServerId(subscriber).catch(unlessRetryable);
      await subscriber.subscribe(this.name);
      if (subscriber !== this.#subscriber || subscriber.status !== 'ready') return;
      this.#serverId = serverId;
      this.#listeningSince = this.clock.now();
      this.#failures = 0;
      if (this.#hasListened) this.listener.onGap();
      else this.listener.onListening();
      this.#hasListened = true;
      this.follow();
    } catch (error) {
      // A lost connection subscribes again when it is ready, and what passes has passed by then; a refusal stays one.
      if (isRetryable(error)) return this.#onUnanswered(subscriber, error as Error);
      if (this.#refused) return;
      this.#refused = true;
      this.reporter.warn(`Wake-ups are off, waiting locks poll instead: ${(error as Error).message}`);
    } finally {
      if (subscriber === this.#subscriber) answered();
    }
  }

  #onUnanswered(subscriber: Redis, error: Error): void {
    if (error.name === 'ReplyError' && subscriber === this.#subscriber) this.#connectLater();
  }

  #beatLater(): void {
    this.#cancelBeat = this.#inOurContext(() => this.clock.setTimer(() => void this.#beat(), BEAT_MS));
  }

  /** Subscribing once more changes nothing, needs no other right, and is answered by a server that hears. */
  async #beat(): Promise<void> {
    this.#isBeating = this.clock.now() <= this.#expectedUntil;
    if (!this.#isBeating) return;
    const subscriber = this.#subscriber;
    if (subscriber && this.#listeningSince !== null) {
      const answered = this.#expectAnswer();
      await subscriber.subscribe(this.name).catch(() => undefined);
      if (subscriber === this.#subscriber) answered();
    }
    if (!this.#isClosed) this.#beatLater();
  }

  /** Leaves the connection unless it is told in time that the server has answered. */
  #expectAnswer(): () => void {
    this.#cancelDeadline?.();
    const leave = (): void => {
      this.reporter.debug('Redis subscriber: no answer');
      this.#connectLater();
    };
    this.#inOurContext(() => (this.#cancelDeadline = setDeadline(this.clock, leave, ANSWER_MS)));
    return () => this.#cancelDeadline?.();
  }

  #onMessage(message: string): void {
    const [kind, attempt, token, serverTimeMs, remainingMs] = message.split(' ');
    if (attempt === undefined) return;
    if (kind === 'wake' || kind === 'revoked') this.listener.onWakeUp(attempt, { kind });
    if (kind !== 'granted') return;
    const grant = { fencingToken: Number(token), serverTimeMs: Number(serverTimeMs), remainingMs: Number(remainingMs) };
    const server = this.#serverId ?? undefined;
    // It counts where it is known which server made it; of a cluster, one node tells for all.
    const counts = server !== undefined || isCluster(this.commands.liveClient());
    this.listener.onWakeUp(attempt, counts ? { kind, ...grant, server } : { kind: 'wake' });
  }
}

/** Nothing is known where the server refuses to tell. */
function unlessRetryable(error: Error): null {
  if (!isRetryable(error)) return null;
  throw error;
}

/** Tells of a grant as of a call to come and ask. */
export const withoutGrants = (listener: WakeUpListener): WakeUpListener => ({
  onWakeUp: (attempt, wakeUp) => listener.onWakeUp(attempt, wakeUp.kind === 'granted' ? { kind: 'wake' } : wakeUp),
  onListening: () => listener.onListening(),
  onGap: () => listener.onGap(),
});
