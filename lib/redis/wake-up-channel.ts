import { type Clock } from '../core/clock.js';
import { type WakeUpListener } from '../core/lock-store.js';
import { type Reporter } from '../core/reporter.js';
import { type RedisClient, closeClient, openSubscriber, reconnectDelayMs } from './redis-client.js';
import { type IsThere, ifElsewhere } from './sentinel-watch.js';

type Subscriber = NonNullable<ReturnType<typeof openSubscriber>>;

/**
 * The one subscriber connection of a store. Messages are `granted <attempt> <token> <now> <remainingMs>`,
 * `wake <attempt>` (see scripts/queue.ts) or `revoked <attempt>` (see scripts/force-release.ts). Pub/sub loses messages
 * while it is not connected, so everybody who waits asks once after each subscription. On a cluster it is a connection of
 * our own to one node: ioredis does not tell when its own moves to another node.
 */
export class WakeUpChannel {
  #subscriber: Subscriber | null = null;
  #failures = 0;
  #refused = false;
  #hasListened = false;
  #isClosed = false;
  #cancelRetry: (() => void) | undefined;

  constructor(
    private readonly client: () => RedisClient,
    private readonly name: string,
    private readonly listener: WakeUpListener,
    private readonly clock: Clock,
    private readonly reporter: Reporter,
  ) {
    this.#connect();
  }

  /** Behind Sentinel: leaves the old master. */
  move(isThere: IsThere): void {
    const subscriber = this.#subscriber;
    if (subscriber) ifElsewhere(subscriber, isThere, () => subscriber.disconnect(true));
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#cancelRetry?.();
    if (this.#subscriber) await closeClient(this.#subscriber);
  }

  #connect(): void {
    const client = this.client();
    const subscriber = openSubscriber(client);
    this.#subscriber = subscriber;
    if (!subscriber) return this.#connectLater();
    subscriber.on('error', (error: Error) => this.reporter.debug(`Redis subscriber: ${error.message}`));
    subscriber.on('message', (_channel: string, message: string) => this.#onMessage(message));
    subscriber.on('ready', () => void this.#subscribe(subscriber));
    subscriber.once('end', () => this.#connectLater());
  }

  #connectLater(): void {
    if (this.#isClosed) return;
    this.#failures += 1;
    this.#cancelRetry = this.clock.setTimer(() => this.#connect(), reconnectDelayMs(this.#failures));
  }

  async #subscribe(subscriber: Subscriber): Promise<void> {
    try {
      await subscriber.subscribe(this.name);
      this.#failures = 0;
      if (this.#hasListened) this.listener.onGap();
      else this.listener.onListening();
      this.#hasListened = true;
    } catch (error) {
      // A lost connection subscribes again when it is ready; a refusal stays one, and is told once.
      if (this.#refused || (error as Error).name !== 'ReplyError') return;
      this.#refused = true;
      this.reporter.warn(`Wake-ups are off, waiting locks poll instead: ${(error as Error).message}`);
    }
  }

  #onMessage(message: string): void {
    const [kind, attempt, token, serverTimeMs, remainingMs] = message.split(' ');
    if (attempt === undefined) return;
    if (kind === 'wake' || kind === 'revoked') this.listener.onWakeUp(attempt, { kind });
    if (kind === 'granted') {
      this.listener.onWakeUp(attempt, {
        kind,
        fencingToken: Number(token),
        serverTimeMs: Number(serverTimeMs),
        remainingMs: Number(remainingMs),
      });
    }
  }
}
