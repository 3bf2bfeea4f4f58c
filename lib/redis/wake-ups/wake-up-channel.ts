import { AsyncLocalStorage } from 'node:async_hooks';
import { type Clock } from '../../core/clock.js';
import { MAX_LEASE_MS } from '../../core/lock.options.js';
import { type WakeUpListener } from '../../core/store/lock-store.js';
import { type Reporter, withoutRepeats } from '../../core/reporter.js';
import { type RedisClient } from '../client/cluster.js';
import { type LeadsToMaster } from '../client/redis-client.js';
import { wholeNumber } from '../codec/replies.js';
import { SUBSCRIBER_SETTLED_MS, moveDelayMs, reconnectDelayMs } from '../timing.js';
import { Heartbeat } from './heartbeat.js';
import { Subscriber } from './subscriber.js';

/** The connection for commands, and the server that it leads to. */
interface Commands {
  liveClient(): RedisClient;
  readonly serverId: string | null;
  /** Checks that the server of the present connection answers. */
  checkServer(): void;
}

/** The dependencies of a wake-up channel. */
interface WakeUpChannelParts {
  readonly commands: Commands;
  readonly name: string;
  readonly listener: WakeUpListener;
  /** Otherwise a grant is only a wake-up: the attempt has to send its request. */
  readonly acceptsGrants: () => boolean;
  readonly clock: Clock;
  readonly reporter: Reporter;
}

/**
 * Delivers the messages that the scripts publish for one store, by one subscriber connection at a time:
 * `granted <attempt> <token> <aheadMs> <remainingMs>` and `wake <attempt>` (`serve` in scripts/queue.lua), and
 * `revoked <attempt>` (`revoke` in scripts/rare.lua). Pub/sub loses messages while there is no
 * connection, so every waiting call sends its request once after each subscription. The subscriber follows the commands to
 * another server. On a cluster it is our connection to one node: ioredis does not report when its own subscriber
 * moves to another node.
 */
export class WakeUpChannel {
  readonly #inOurContext = AsyncLocalStorage.snapshot();
  readonly #heartbeat: Heartbeat;
  #subscriber: Subscriber | null = null;
  /** How many connections in a row have failed before messages arrived. */
  #failures = 0;
  /** How often in a row it moved to another server, and when it last moved. */
  #moves = 0;
  #movedAt = -Infinity;
  #hasListened = false;
  #isRefused = false;
  #isClosed = false;
  #cancelConnect: (() => void) | undefined;
  readonly #debug = withoutRepeats((line) => this.parts.reporter.debug(line));

  constructor(private readonly parts: WakeUpChannelParts) {
    this.#heartbeat = new Heartbeat(async () => this.#subscriber?.check(), parts.clock, this.#inOurContext);
    this.#connect();
  }

  /** The run id of the server whose messages arrive now; null while none arrive or it is unknown, and for a cluster. */
  get serverId(): string | null {
    return this.#subscriber?.serverId ?? null;
  }

  /** A call waits: for some seconds, the subscriber is checked, and replaced if its server does not answer. */
  expectMessages(): void {
    this.#heartbeat.onWaiting();
  }

  /**
   * Moves when commands go to another server than the subscriber, as far as both are known. The connection of the commands may
   * be the stale one: if no command is sent, its death goes unnoticed.
   */
  follow(): void {
    const [here, there] = [this.serverId, this.parts.commands.serverId];
    if (here === null || there === null || here === there) return;
    this.parts.commands.checkServer();
    this.replace();
  }

  /**
   * Replaces the subscriber, and then reports missed messages. `sentAt`: when the command was sent whose reply reported
   * no listener; a subscriber that has listened only since then is kept.
   */
  replace(sentAt = Infinity): void {
    const since = this.#subscriber?.listeningSince ?? null;
    if (this.#isClosed || since === null || since > sentAt) return;
    const now = this.parts.clock.now();
    this.#moves = now - this.#movedAt > SUBSCRIBER_SETTLED_MS ? 0 : this.#moves + 1;
    this.#movedAt = now;
    this.#leave();
    this.#connectIn(moveDelayMs(this.#moves));
  }

  /** Behind Sentinel: leaves a server that is no longer the master. */
  move(leadsToMaster: LeadsToMaster): void {
    this.#subscriber?.move(leadsToMaster);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#cancelConnect?.();
    this.#heartbeat.close();
    await this.#subscriber?.close();
  }

  #connect(): void {
    this.#inOurContext(() => {
      const { name: channel, clock } = this.parts;
      const commandsClient = this.parts.commands.liveClient();
      const client = commandsClient.openSubscriber();
      if (!client) return this.#onFailure();
      const inOurContext = this.#inOurContext;
      const isOfCluster = commandsClient.isCluster;
      const parts = { client, channel, isOfCluster, clock, inOurContext, debug: this.#debug };
      this.#subscriber = new Subscriber(parts, {
        onMessage: (message) => this.#onMessage(message, isOfCluster),
        onListening: () => this.#onListening(),
        onRefused: (error) => this.#onRefused(error),
        onFailure: (reason) => this.#onFailure(reason),
      });
    });
  }

  #connectIn(delayMs: number): void {
    this.#cancelConnect = this.#inOurContext(() => this.parts.clock.setTimer(() => this.#connect(), delayMs));
  }

  #leave(): void {
    this.#subscriber?.leave();
    this.#subscriber = null;
  }

  #onFailure(reason?: string): void {
    if (reason !== undefined) this.parts.reporter.debug(`Redis subscriber: ${reason}`);
    if (this.#isClosed) return;
    this.#leave();
    this.#failures += 1;
    this.#connectIn(reconnectDelayMs(this.#failures));
  }

  #onListening(): void {
    this.#failures = 0;
    if (this.#hasListened) this.parts.listener.onMessagesMissed();
    else this.parts.listener.onListening();
    this.#hasListened = true;
    this.follow();
  }

  #onRefused({ message }: Error): void {
    if (!this.#isRefused) this.parts.reporter.warn(`Wake-ups are off, waiting locks poll instead: ${message}`);
    this.#isRefused = true;
  }

  #onMessage(message: string, isOfCluster: boolean): void {
    const [kind, attempt, token, aheadMs, remainingMs] = message.split(' ');
    if (attempt === undefined) return;
    if (kind === 'wake' || kind === 'revoked') this.parts.listener.onWakeUp(attempt, { kind });
    if (kind !== 'granted') return;
    // Any client may publish on the channel.
    const [fencingToken, ahead, remaining] = [token, aheadMs, remainingMs].map(wholeNumber) as [number, number, number];
    // Tokens are times in microseconds, and may be ahead of the clock of the server.
    const serverTimeMs = Math.floor(fencingToken / 1_000) - ahead;
    const grant = { fencingToken, serverTimeMs, remainingMs: remaining };
    const server = this.serverId ?? undefined;
    // A grant counts only when the server that made it is known; in a cluster, one node delivers the messages of all.
    const isKnown = server !== undefined || isOfCluster;
    const counts = isKnown && serverTimeMs >= 0 && remaining <= MAX_LEASE_MS && this.parts.acceptsGrants();
    this.parts.listener.onWakeUp(attempt, counts ? { kind, ...grant, server } : { kind: 'wake' });
  }
}
