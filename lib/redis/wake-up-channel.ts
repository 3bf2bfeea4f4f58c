import { type WakeUpListener } from '../core/lock-store.js';
import { type Reporter } from '../core/reporter.js';
import { type RedisClient, closeClient, duplicateClient } from './redis-client.js';

/**
 * The one subscriber connection of a store. Messages are `granted <attempt> <token> <now> <remainingMs>`,
 * `wake <attempt>` (see scripts/queue.ts) or `revoked <attempt>` (see scripts/force-release.ts). Pub/sub loses messages
 * while it is not connected, so everybody who waits asks once after each subscription.
 */
export class WakeUpChannel {
  readonly #subscriber: RedisClient;
  #refused = false;

  constructor(
    client: RedisClient,
    private readonly name: string,
    private readonly listener: WakeUpListener,
    private readonly reporter: Reporter,
  ) {
    this.#subscriber = duplicateClient(client);
    this.#subscriber.on('error', (error: Error) => reporter.debug(`Redis subscriber: ${error.message}`));
    this.#subscriber.on('message', (_channel: string, message: string) => this.#onMessage(message));
    this.#subscriber.on('ready', () => void this.#subscribe());
  }

  close(): Promise<void> {
    return closeClient(this.#subscriber);
  }

  async #subscribe(): Promise<void> {
    try {
      await this.#subscriber.subscribe(this.name);
      this.listener.onGap();
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
