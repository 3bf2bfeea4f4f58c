import { type RedisOptions } from 'ioredis';
import { type SimProcess } from '../world/sim-process.js';
import { type SimRedis } from './sim-redis.js';

interface Endpoint {
  readonly host: string;
  readonly port: number;
}

const CLOSED = 'Connection is closed.';

/**
 * Asks one sentinel after the other for the master, as ioredis 6 does (built/connectors/SentinelConnector): each question
 * has a connection of its own.
 */
export class SentinelConnector {
  readonly #sentinels: Endpoint[];
  #cursor = 0;
  #isConnecting = false;
  #retries = 0;

  constructor(
    private readonly process: SimProcess,
    private readonly options: RedisOptions,
    private readonly open: (options: RedisOptions) => SimRedis,
  ) {
    this.#sentinels = options.sentinels!.map(({ host, port }) => ({ host: host!, port: port! }));
  }

  /** Resolves with the port of the master. */
  async connect(onError: (error: Error) => void): Promise<number> {
    this.#isConnecting = true;
    this.#retries = 0;
    let lastError: Error | undefined;
    for (;;) {
      const sentinel = this.#sentinels[this.#cursor++];
      if (!sentinel) {
        this.#cursor = 0;
        await this.#pause(lastError, onError);
        continue;
      }
      const found = await this.#ask(sentinel).catch((error: Error) => error);
      if (!this.#isConnecting) throw new Error(CLOSED);
      if (typeof found === 'number') return found;
      lastError = found;
    }
  }

  disconnect(): void {
    this.#isConnecting = false;
  }

  /** Whether the role of a server is right; otherwise the next sentinel is asked first. */
  check(role: string): boolean {
    if (role === 'master') return true;
    this.#cursor = Math.min(this.#cursor + 2, this.#sentinels.length);
    if (this.#sentinels.length > 1 && this.#cursor !== 1) {
      this.#sentinels.unshift(...this.#sentinels.splice(this.#cursor - 1));
    }
    this.#cursor = 0;
    return false;
  }

  async #pause(lastError: Error | undefined, onError: (error: Error) => void): Promise<void> {
    const delayMs = this.options.sentinelRetryStrategy?.((this.#retries += 1));
    const what = typeof delayMs === 'number' ? `Retrying from scratch after ${delayMs}ms.` : 'and retry is disabled.';
    const text = `All sentinels are unreachable. ${what}${lastError ? ` Last error: ${lastError.message}` : ''}`;
    if (typeof delayMs !== 'number') throw new Error(text);
    onError(new Error(text));
    await this.process.sleep(delayMs);
  }

  async #ask({ host, port }: Endpoint): Promise<number> {
    const { connectTimeout, sentinelCommandTimeout: commandTimeout } = this.options;
    const limits = { connectTimeout: connectTimeout!, ...(commandTimeout === undefined ? {} : { commandTimeout }) };
    const client = this.open({ host, port, ...limits, retryStrategy: null, enableReadyCheck: false });
    client.on('error', () => undefined);
    try {
      const [, master] = (await client.call('SENTINEL', 'get-master-addr-by-name', this.options.name)) as string[];
      if (this.options.updateSentinels !== false) await this.#learnFrom(client);
      return Number(master);
    } finally {
      client.disconnect();
    }
  }

  async #learnFrom(client: SimRedis): Promise<void> {
    const others = (await client.call('SENTINEL', 'sentinels', this.options.name)) as string[][];
    for (const fields of others) {
      const valueOf = (field: string): string => fields[fields.indexOf(field) + 1]!;
      if (valueOf('flags').includes('disconnected')) continue;
      const other = { host: valueOf('ip'), port: Number(valueOf('port')) };
      if (!this.#sentinels.some(({ port }) => port === other.port)) this.#sentinels.push(other);
    }
  }
}
