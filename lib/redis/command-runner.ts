import { type Clock } from '../core/clock.js';
import { LockStoreError } from '../core/lock.errors.js';
import { type Reporter } from '../core/reporter.js';
import { type RedisClient, closeClient, duplicateClient } from './redis-client.js';
import { storeError } from './redis-errors.js';
import { type LuaScript } from './scripts/lua.js';

/**
 * Runs scripts under deadlines of our own: ioredis may leave a promise pending for ever (a half-open socket, a lost
 * reply). A command without an answer is given up, and its socket replaced; every script may be sent again.
 */
export class CommandRunner {
  #client: RedisClient;

  /** `owned`: the client is ours to cut and to close. */
  constructor(
    client: RedisClient,
    private owned: boolean,
    private readonly clock: Clock,
    private readonly reporter: Reporter,
  ) {
    this.#client = client;
  }

  get client(): RedisClient {
    return this.#client;
  }

  /**
   * Gives the script's reply as strings. `echo` is what its second element has to be: another one is the reply of
   * another command, on a connection that lost count.
   */
  async run(
    script: LuaScript<any, any>,
    operands: readonly (string | number)[],
    key: string,
    timeoutMs: number,
    echo?: string,
  ): Promise<string[]> {
    const client = this.#client;
    let reply: unknown;
    try {
      reply = await this.#within(timeoutMs, this.#evaluate(client, script, operands), () =>
        this.#replaceSocket(client),
      );
    } catch (error) {
      throw storeError(key, error);
    }
    if (!Array.isArray(reply) || (echo !== undefined && String(reply[1]) !== echo)) {
      this.#replaceSocket(client);
      throw new LockStoreError(`Redis answered another command than the one for the lock "${key}".`, { key });
    }
    return reply.map(String);
  }

  /** Connects a client of ours; what fails is tried again by ioredis, and told by the commands. */
  connect(): void {
    if (this.owned && this.#client.status === 'wait') this.#client.connect().catch(() => undefined);
  }

  async close(): Promise<void> {
    if (this.owned) await closeClient(this.#client);
  }

  /** EVALSHA, and EVAL where the server does not know the script: after a restart, a failover, or SCRIPT FLUSH. */
  async #evaluate(
    client: RedisClient,
    script: LuaScript<any, any>,
    operands: readonly (string | number)[],
  ): Promise<unknown> {
    const [numberOfKeys, ...rest] = operands as [number, ...(string | number)[]];
    try {
      return await client.evalsha(script.sha1, numberOfKeys, ...rest);
    } catch (error) {
      if (!(error as Error).message.includes('NOSCRIPT')) throw error;
      return client.eval(script.text, numberOfKeys, ...rest);
    }
  }

  #within<T>(timeoutMs: number, answer: Promise<T>, onTimeout: () => void): Promise<T> {
    return new Promise((resolve, reject) => {
      const cancel = this.clock.setTimer(() => {
        onTimeout();
        reject(new Error(`no answer within ${Math.round(timeoutMs)} ms`));
      }, timeoutMs);
      answer.then(resolve, reject).finally(cancel);
    });
  }

  #replaceSocket(client: RedisClient): void {
    if (client !== this.#client) return;
    if (this.owned) {
      if (client.status === 'ready') client.disconnect(true);
      return;
    }
    // A given client may be stuck behind somebody's blocking command, and is not ours to cut.
    this.reporter.warn('The given Redis client does not answer in time; locks continue on a connection of their own.');
    this.#client = duplicateClient(client);
    this.#client.on('error', (error: Error) => this.reporter.debug(`Redis connection: ${error.message}`));
    this.owned = true;
  }
}
