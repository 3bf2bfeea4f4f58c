import { type Redis } from 'ioredis';
import { type Reporter } from '../../core/reporter.js';
import { isRetryable } from './redis-errors.js';

/** The run id in what `INFO server` tells: another one each time a server starts; null where it is not told. */
export const runIdIn = (info: string): string | null => /^run_id:(\w+)/m.exec(info)?.[1] ?? null;

/** The run id of the server that a connection leads to; null where the server does not tell it. Rejects as INFO does. */
export const readServerId = async (client: Redis): Promise<string | null> => runIdIn(await client.info('server'));

/** Which server one connection leads to, as long as it does. */
export class ServerId {
  /** The run id; null while it is not known. */
  value: string | null = null;
  #connections = 0;
  /** Which of the connections was asked last. */
  #askedOf = -1;
  #isRefused = false;

  constructor(private readonly reporter: Reporter) {}

  /** The connection leads nowhere. */
  forget(): void {
    this.#connections += 1;
    this.value = null;
  }

  /** Asks a connection that is ready, unless it was asked, and calls back when it has answered. */
  ask(client: Redis, onKnown: () => void): void {
    if (this.#isRefused || this.#askedOf === this.#connections) return;
    const connection = (this.#askedOf = this.#connections);
    readServerId(client).then(
      (id) => {
        if (connection !== this.#connections) return;
        this.value = id;
        onKnown();
      },
      (error: Error) => this.#onFailure(connection, error),
    );
  }

  #onFailure(connection: number, error: Error): void {
    if (this.#isRefused) return;
    // What passes may have passed when it is asked again; a refusal stays one, and is told once.
    if (isRetryable(error)) {
      if (this.#askedOf === connection) this.#askedOf = -1;
      return;
    }
    this.#isRefused = true;
    const text = 'Redis does not tell which server it is, so locks that are handed over are asked for once more';
    this.reporter.warn(`${text}: ${error.message}`);
  }
}
