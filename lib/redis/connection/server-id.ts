import { type SingleClient } from '../client/redis-client.js';
import { type Reporter } from '../../core/reporter.js';
import { isRetryable } from './redis-errors.js';
import { ROLE_RECHECK_MS } from '../timing.js';
import { readServerFacts } from './server-facts.js';

/**
 * The run id of the server that a connection leads to, which changes each time a server starts; null where the server does
 * not report it. Rejects if INFO does.
 */
export async function readServerId(client: SingleClient): Promise<string | null> {
  return runIdIn(await client.info('server'));
}

const runIdIn = (info: string): string | null => readServerFacts(info).runId ?? null;

/** Which server the present connection of a client leads to. */
export class ServerId {
  /** The run id; null while it is unknown. */
  value: string | null = null;
  #connections = 0;
  /** The number of the connection that was queried last. */
  #lastAsked = -1;
  /** When it is queried again, on the monotonic clock. */
  #askAgainAt = 0;
  #isRefused = false;

  constructor(private readonly reporter: Reporter) {}

  /** The connection was lost. */
  forget(): void {
    this.#connections += 1;
    this.value = null;
  }

  /** Queries a ready connection from time to time, and calls back with its INFO; with '' where that is refused. */
  ask(client: SingleClient, now: number, onAnswer: (info: string, askedAt: number) => void): void {
    if (this.#lastAsked === this.#connections && now < this.#askAgainAt) return;
    this.#askAgainAt = now + ROLE_RECHECK_MS;
    const connection = (this.#lastAsked = this.#connections);
    const asked = this.#isRefused ? Promise.resolve('') : client.info();
    const onInfo = (info: string): void => {
      if (connection !== this.#connections) return;
      this.value = runIdIn(info);
      onAnswer(info, now);
    };
    asked.then(onInfo, (error: Error) => {
      if (isRetryable(error)) return this.#onFailure(connection);
      this.#onRefusal(error);
      onInfo('');
    });
  }

  /** A passing failure may be over at the next query. */
  #onFailure(connection: number): void {
    if (this.#lastAsked === connection) this.#lastAsked = -1;
  }

  /** A refusal is permanent, and is reported once. */
  #onRefusal({ message }: Error): void {
    if (this.#isRefused) return;
    this.#isRefused = true;
    const text = 'Redis does not report which server it is, so locks that are handed over are requested once more';
    this.reporter.warn(`${text}: ${message}`);
  }
}
