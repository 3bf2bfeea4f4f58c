import { type Clock, setDeadline } from '../../core/clock.js';
import { type LeadsToMaster, type SingleClient } from '../client/redis-client.js';
import { readableText } from '../connection/error-advice.js';
import { isRetryable } from '../connection/redis-errors.js';
import { ifElsewhere } from '../connection/demotion.js';
import { readServerId } from '../connection/server-id.js';
import { SUBSCRIBER_ANSWER_MS } from '../timing.js';

/** The dependencies of a subscriber. */
interface SubscriberParts {
  readonly client: SingleClient;
  /** The name of the channel. */
  readonly channel: string;
  /** Whether the client leads to a node of a cluster, which delivers the messages of all servers. */
  readonly isOfCluster: boolean;
  readonly clock: Clock;
  /** Runs code that sets timers of this library. */
  readonly inOurContext: <R>(work: () => R) => R;
  /** Logs an error of the connection. */
  readonly debug: (line: string) => void;
}

/** Receives the reports of a subscriber until it is left. */
interface SubscriberListener {
  onMessage(message: string): void;
  /** Messages arrive from now on. */
  onListening(): void;
  /** The server refuses the subscription. */
  onRefused(error: Error): void;
  /** Another connection is needed: this one has ended, or its server is busy or does not answer. */
  onFailure(reason?: string): void;
}

/** One connection that listens to a channel; its library may reconnect it. Once it is left, it reports nothing. */
export class Subscriber {
  /** The run id of the server whose messages arrive now; null while none arrive, or while it is unknown. */
  serverId: string | null = null;
  /** Since when messages arrive; null while they do not. */
  listeningSince: number | null = null;
  #isLeft = false;
  #cancelDeadline: (() => void) | undefined;
  #stopMove = (): void => undefined;

  constructor(
    private readonly parts: SubscriberParts,
    private readonly listener: SubscriberListener,
  ) {
    const { client, debug } = parts;
    client.on('error', (error) => debug(`Redis subscriber: ${readableText(error)}`));
    const unlessLeft = (react: () => void) => (): void => void (this.#isLeft || react());
    client.on('message', (_channel, message) => unlessLeft(() => listener.onMessage(message))());
    client.on(
      'ready',
      unlessLeft(() => void this.#listen()),
    );
    client.on(
      'closed',
      unlessLeft(() => this.#onClose()),
    );
    client.on(
      'ended',
      unlessLeft(() => listener.onFailure()),
    );
  }

  /** Checks that the server still answers, by subscribing again: that changes nothing, and does not need another permission. */
  async check(): Promise<void> {
    if (this.listeningSince === null) return;
    this.#expectAnswer();
    await this.parts.client.subscribe(this.parts.channel).catch(() => undefined);
    this.#onAnswer();
  }

  /** Behind Sentinel: reports a failure when its server is no longer the master. */
  move(leadsToMaster: LeadsToMaster): void {
    this.#stopMove();
    const leave = (): unknown => this.#isLeft || this.listener.onFailure();
    this.#stopMove = ifElsewhere(this.parts.client, leadsToMaster, leave);
  }

  leave(): void {
    this.#isLeft = true;
    this.#onClose();
    this.parts.client.disconnect();
  }

  async close(): Promise<void> {
    this.#cancelDeadline?.();
    await this.parts.client.close();
  }

  async #listen(): Promise<void> {
    const { client, channel, isOfCluster, clock } = this.parts;
    this.#expectAnswer();
    try {
      // The id must be known before any message arrives. Where the query is refused, it stays unknown.
      const serverId = isOfCluster ? null : await readServerId(client).catch(nullIfRefused);
      await client.subscribe(channel);
      if (this.#isLeft || client.status !== 'ready') return;
      this.serverId = serverId;
      this.listeningSince = clock.now();
      this.listener.onListening();
    } catch (error) {
      this.#onError(error as Error);
    } finally {
      this.#onAnswer();
    }
  }

  /** A reconnected connection subscribes again when it is ready. A passing refusal may be over by then; any other one stays. */
  #onError(error: Error): void {
    if (!isRetryable(error)) this.listener.onRefused(error);
    else if (error.name === 'ReplyError' && !this.#isLeft) this.listener.onFailure();
  }

  #onClose(): void {
    this.listeningSince = null;
    this.serverId = null;
    this.#cancelDeadline?.();
  }

  #expectAnswer(): void {
    this.#cancelDeadline?.();
    const fail = (): void => this.listener.onFailure('no answer');
    const { clock, inOurContext } = this.parts;
    this.#cancelDeadline = inOurContext(() => setDeadline(clock, fail, SUBSCRIBER_ANSWER_MS));
  }

  #onAnswer(): void {
    if (!this.#isLeft) this.#cancelDeadline?.();
  }
}

function nullIfRefused(error: Error): null {
  if (!isRetryable(error)) return null;
  throw error;
}
