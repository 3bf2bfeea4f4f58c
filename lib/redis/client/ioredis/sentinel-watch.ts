import { isIP } from 'node:net';
import type { Redis, RedisOptions } from 'ioredis';
import { type Clock } from '../../../core/clock.js';
import { withoutRepeats } from '../../../core/reporter.js';
import {
  CONNECT_TIMEOUT_MS,
  MAX_SENTINELS,
  MAX_SENTINEL_RETRIES,
  SENTINEL_COMMAND_TIMEOUT_MS,
  SENTINEL_PING_MS,
  reconnectDelayMs,
} from '../../timing.js';
import { readableText } from '../../connection/error-advice.js';
import { type ClientParts } from '../client-library.js';
import { type LeadsToMaster, type MasterWatch } from '../redis-client.js';
import { type ServerAddress, addressText } from '../server-address.js';
import { closeConnection } from './lifecycle.js';
import { WITHOUT_QUEUE, reachedBy } from './ioredis-options.js';

/** Every sentinel announces the first when its view changes; the leader of a failover announces the second before that. */
const [SWITCHED, PROMOTED] = ['+switch-master', '+promoted-slave'] as const;

/**
 * Learns from all sentinels that another server is the master now. Sentinels direct new clients there seconds before they
 * demote the old one, and a lock renewed on the old one would exist beside the next holder's. The connections are our own,
 * one per sentinel and store: ioredis would open one per sentinel and connection, asks the sentinel that comes first, and
 * misses what that sentinel learns while ioredis connects.
 */
export class SentinelWatch implements MasterWatch {
  readonly #links = new Map<string, SentinelLink>();
  #isRefused = false;
  #isClosed = false;

  readonly #options: RedisOptions;

  constructor(
    private readonly client: Redis,
    private readonly onMaster: (leadsToMaster: LeadsToMaster) => void,
    private readonly parts: ClientParts,
  ) {
    this.#options = client.options;
    for (const { host = '127.0.0.1', port = 26_379 } of client.options.sentinels!)
      this.#add({ host, port }, reconnectDelayMs);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.all([...this.#links.values()].map((link) => link.close()));
  }

  #add(sentinel: ServerAddress, retryStrategy: (times: number) => number | null): void {
    const name = addressText(sentinel);
    if (this.#isClosed || this.#links.has(name) || this.#links.size >= MAX_SENTINELS) return;
    const client = openSentinel(this.client, sentinel, retryStrategy);
    const debug = withoutRepeats((line) => this.parts.reporter.debug(line));
    client.on('error', (error: Error) => debug(`Redis sentinel: ${readableText(error)}`));
    client.once('end', () => this.#links.delete(name));
    const listener: SentinelListener = {
      onMaster: (master, isFirst) => this.#onMaster(reachedBy(master, this.#options.natMap), isFirst),
      onSentinel: (other) => this.#onSentinel(reachedBy(other, this.#options.natMap)),
      onRefused: (error) => this.#onRefused(error),
    };
    this.#links.set(name, new SentinelLink(client, this.#options.name!, listener, this.parts.clock));
  }

  /** Where addresses change, sentinels that the application does not name may be gone for good: their retries are limited. */
  #onSentinel(other: ServerAddress): void {
    if (this.#options.updateSentinels === false) return;
    this.#add(other, (times) => (times > MAX_SENTINEL_RETRIES ? null : reconnectDelayMs(times)));
  }

  #onRefused({ message }: Error): void {
    if (!this.#isRefused) {
      this.parts.reporter.warn(`Failovers are noticed up to ${SENTINEL_PING_MS} ms late, by polling: ${message}`);
    }
    this.#isRefused = true;
  }

  /** A host name does not show whether a connection leads there: then only a change counts, and not the first answer. */
  #onMaster({ host, port }: ServerAddress, isFirst: boolean): void {
    this.onMaster(({ peer }) => {
      if (peer?.port !== port) return false;
      return isIP(host) === 0 ? isFirst : peer.host === host;
    });
  }
}

/** Receives what one sentinel reports. */
interface SentinelListener {
  onMaster(master: ServerAddress, isFirst: boolean): void;
  onSentinel(other: ServerAddress): void;
  /** The sentinel does not let us subscribe. */
  onRefused(error: Error): void;
}

/** The connection to one sentinel; it reports the master only when that sentinel names another one than before. */
class SentinelLink {
  #lastMaster: string | null = null;
  #isListening = false;
  #cancelPing: (() => void) | undefined;

  constructor(
    private readonly client: Redis,
    private readonly name: string,
    private readonly listener: SentinelListener,
    private readonly clock: Clock,
  ) {
    client.on('message', (channel: string, text: string) => this.#onMessage(channel, text.split(' ')));
    client.on('close', () => (this.#isListening = false));
    client.on('ready', () => this.#reconnectUnless([this.#askMaster(), this.#askSentinels(), this.#subscribe()]));
    this.#pingLater();
  }

  async close(): Promise<void> {
    this.#cancelPing?.();
    await closeConnection(this.client, this.clock);
  }

  async #askMaster(): Promise<void> {
    const [host, port] = ((await this.client.call('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', this.name)) ?? []) as string[];
    if (host) this.#onMaster(host, port!);
  }

  async #askSentinels(): Promise<void> {
    const others = (await this.client.call('SENTINEL', 'SENTINELS', this.name)) as string[][];
    for (const fields of others) {
      const valueOf = (field: string) => fields[fields.indexOf(field) + 1]!;
      if (valueOf('flags').includes('disconnected')) continue;
      this.listener.onSentinel({ host: valueOf('ip'), port: Number(valueOf('port')) });
    }
  }

  /** Sent together with the question for the master, and after it: every change after that answer is announced. */
  async #subscribe(): Promise<void> {
    try {
      await this.client.subscribe(SWITCHED, PROMOTED);
      this.#isListening = true;
    } catch (error) {
      if ((error as Error).name !== 'ReplyError') throw error;
      this.listener.onRefused(error as Error);
    }
  }

  /** `+switch-master`: `name host port host port`; `+promoted-slave`: `slave name host port @ name host port`. */
  #onMessage(channel: string, words: readonly string[]): void {
    if (channel === SWITCHED && words[0] === this.name) this.#onMaster(words[3]!, words[4]!);
    if (channel === PROMOTED && words[5] === this.name) this.#onMaster(words[2]!, words[3]!);
  }

  #onMaster(host: string, port: string): void {
    const master = `${host}:${port}`;
    const before = this.#lastMaster;
    this.#lastMaster = master;
    if (master !== before) this.listener.onMaster({ host, port: Number(port) }, before === null);
  }

  #pingLater(): void {
    this.#cancelPing = this.clock.setTimer(() => {
      if (this.client.status === 'ready') {
        this.#reconnectUnless([this.#isListening ? this.client.ping() : this.#askMaster()]);
      }
      this.#pingLater();
    }, SENTINEL_PING_MS);
  }

  /** Reconnects when an answer is missing at the deadline that the connection has for each. A refusal is an answer. */
  #reconnectUnless(answers: readonly Promise<unknown>[]): void {
    Promise.all(answers).catch((error: Error) => {
      if (error.name !== 'ReplyError' && this.client.status === 'ready') this.client.disconnect(true);
    });
  }
}

type RetryStrategy = (times: number) => number | null;

/** What a client may have chosen for its commands, or to reach the master, and what a sentinel does not know. */
const NOT_FOR_SENTINELS: RedisOptions = {
  sentinels: undefined,
  path: undefined,
  Connector: undefined,
  db: 0,
  readOnly: false,
  keyPrefix: undefined,
  connectionName: undefined,
  socketTimeout: undefined,
  stringNumbers: false,
  protocol: 2,
  replyMapping: undefined,
  himportFieldsets: undefined,
};

/**
 * Opens a connection to a sentinel, with the options that ioredis takes for the sentinels of such a client. A duplicate is of
 * the same library and copy as the client.
 */
function openSentinel(client: Redis, sentinel: ServerAddress, retryStrategy: RetryStrategy): Redis {
  const { options } = client;
  return client.duplicate({
    ...NOT_FOR_SENTINELS,
    ...sentinel,
    ...WITHOUT_QUEUE,
    username: options.sentinelUsername,
    password: options.sentinelPassword,
    tls: options.sentinelTLS,
    connectTimeout: options.connectTimeout ?? CONNECT_TIMEOUT_MS,
    commandTimeout: options.sentinelCommandTimeout ?? SENTINEL_COMMAND_TIMEOUT_MS,
    retryStrategy,
    enableReadyCheck: false,
    autoResubscribe: false,
    lazyConnect: false,
  });
}
