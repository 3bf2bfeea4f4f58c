import { isIP } from 'node:net';
import { type Redis, type RedisOptions } from 'ioredis';
import { type Clock } from '../../core/clock.js';
import { type Reporter, withoutRepeats } from '../../core/reporter.js';
import { type RedisClient, closeClient, isCluster, openSentinel, reconnectDelayMs } from './redis-client.js';
import { readableText } from './error-advice.js';
import { type ServerAddress, addressText, reachedBy } from './server-address.js';

/** How often a sentinel is asked whether it is there: a connection that carries nothing may be dead without a word. */
const BEAT_MS = 2_000;
const MOST_SENTINELS = 10;
const MOST_RETRIES = 100;
/** Told by every sentinel when its view changes; and by the one that leads a failover, which sends clients there before. */
const [SWITCHED, PROMOTED] = ['+switch-master', '+promoted-slave'] as const;

/** Whether a connection is to the server that a sentinel has just named the master. */
export type IsThere = (client: RedisClient) => boolean;

/**
 * Hears from all sentinels that another server is the master now. They send new clients there seconds before they demote the
 * old one: who stays on that renews beside the next holder. The connections are our own, one per sentinel and store: ioredis
 * would have one per sentinel and connection, asks whichever sentinel comes first, and does not hear what that one learns
 * while it connects.
 */
export class SentinelWatch {
  readonly #links = new Map<string, SentinelLink>();
  #isRefused = false;
  #isClosed = false;

  constructor(
    private readonly options: RedisOptions,
    private readonly onMaster: (isThere: IsThere) => void,
    private readonly clock: Clock,
    private readonly reporter: Reporter,
  ) {
    for (const { host = '127.0.0.1', port = 26_379 } of options.sentinels!) this.#add({ host, port }, reconnectDelayMs);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.all([...this.#links.values()].map((link) => link.close()));
  }

  #add(sentinel: ServerAddress, retryStrategy: (times: number) => number | null): void {
    const name = addressText(sentinel);
    if (this.#isClosed || this.#links.has(name) || this.#links.size >= MOST_SENTINELS) return;
    const client = openSentinel(sentinel, { ...this.options, retryStrategy });
    const debug = withoutRepeats((line) => this.reporter.debug(line));
    client.on('error', (error: Error) => debug(`Redis sentinel: ${readableText(error)}`));
    client.once('end', () => this.#links.delete(name));
    const heard: Heard = {
      onMaster: (master, isFirst) => this.#onMaster(reachedBy(master, this.options.natMap), isFirst),
      onSentinel: (other) => this.#onSentinel(reachedBy(other, this.options.natMap)),
      onRefused: (error) => this.#onRefused(error),
    };
    this.#links.set(name, new SentinelLink(client, this.options.name!, heard, this.clock));
  }

  /** Those that the application does not name may go for good, where addresses change: they are tried for a while only. */
  #onSentinel(other: ServerAddress): void {
    if (this.options.updateSentinels === false) return;
    this.#add(other, (times) => (times > MOST_RETRIES ? null : reconnectDelayMs(times)));
  }

  #onRefused({ message }: Error): void {
    if (!this.#isRefused) this.reporter.warn(`Failovers are noticed up to ${BEAT_MS} ms late, by asking: ${message}`);
    this.#isRefused = true;
  }

  /** By a host name nobody can tell whether a connection is there: then only a change counts, and not what is told first. */
  #onMaster({ host, port }: ServerAddress, isFirst: boolean): void {
    this.onMaster((client) => {
      const { remoteAddress = '', remotePort } = (client as Redis).stream ?? {};
      if (remotePort !== port) return false;
      return isIP(host) === 0 ? isFirst : remoteAddress.replace(/^::ffff:/, '') === host;
    });
  }
}

/** What one sentinel tells. */
interface Heard {
  onMaster(master: ServerAddress, isFirst: boolean): void;
  onSentinel(other: ServerAddress): void;
  /** It does not let us subscribe. */
  onRefused(error: Error): void;
}

/** The connection to one sentinel; of the master it passes on only what differs from what that sentinel told before. */
class SentinelLink {
  #told: string | null = null;
  #isListening = false;
  #cancelBeat: (() => void) | undefined;

  constructor(
    private readonly client: Redis,
    private readonly name: string,
    private readonly heard: Heard,
    private readonly clock: Clock,
  ) {
    client.on('message', (channel: string, text: string) => this.#onMessage(channel, text.split(' ')));
    client.on('close', () => (this.#isListening = false));
    client.on('ready', () => this.#orAgain([this.#askMaster(), this.#askSentinels(), this.#subscribe()]));
    this.#beatLater();
  }

  async close(): Promise<void> {
    this.#cancelBeat?.();
    await closeClient(this.client);
  }

  async #askMaster(): Promise<void> {
    const [host, port] = ((await this.client.call('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', this.name)) ?? []) as string[];
    if (host) this.#onMaster(host, port!);
  }

  async #askSentinels(): Promise<void> {
    const others = (await this.client.call('SENTINEL', 'SENTINELS', this.name)) as string[][];
    for (const fields of others) {
      const valueOf = (field: string) => fields[fields.indexOf(field) + 1]!;
      if (!valueOf('flags').includes('disconnected'))
        this.heard.onSentinel({ host: valueOf('ip'), port: Number(valueOf('port')) });
    }
  }

  /** Sent after the question, in one go with it: what changes after the answer is told. */
  async #subscribe(): Promise<void> {
    try {
      await this.client.subscribe(SWITCHED, PROMOTED);
      this.#isListening = true;
    } catch (error) {
      if ((error as Error).name !== 'ReplyError') throw error;
      this.heard.onRefused(error as Error);
    }
  }

  /** Of the first kind: `name host port host port`; of the other: `slave name host port @ name host port`. */
  #onMessage(channel: string, words: readonly string[]): void {
    if (channel === SWITCHED && words[0] === this.name) this.#onMaster(words[3]!, words[4]!);
    if (channel === PROMOTED && words[5] === this.name) this.#onMaster(words[2]!, words[3]!);
  }

  #onMaster(host: string, port: string): void {
    const told = `${host}:${port}`;
    const before = this.#told;
    this.#told = told;
    if (told !== before) this.heard.onMaster({ host, port: Number(port) }, before === null);
  }

  #beatLater(): void {
    this.#cancelBeat = this.clock.setTimer(() => {
      if (this.client.status === 'ready') this.#orAgain([this.#isListening ? this.client.ping() : this.#askMaster()]);
      this.#beatLater();
    }, BEAT_MS);
  }

  /** Connects again when no answer comes, within the deadline that the connection has for each. A refusal is an answer. */
  #orAgain(answers: readonly Promise<unknown>[]): void {
    Promise.all(answers).catch((error: Error) => {
      if (error.name !== 'ReplyError' && this.client.status === 'ready') this.client.disconnect(true);
    });
  }
}

/**
 * Calls back when a connection is to another server, now or as soon as it is to one; a server that hangs would never
 * let it be ready. One that is about to ask a sentinel needs no more; one that asks must not be cut meanwhile, or
 * ioredis would give it up.
 */
export function ifElsewhere(client: Redis, isThere: IsThere, leave: () => void): void {
  if (client.status === 'connecting') client.once('connect', () => ifElsewhere(client, isThere, leave));
  if ((client.status === 'connect' || client.status === 'ready') && !isThere(client)) leave();
}

/** The watch of a client that finds its master by sentinels; null for any other. */
export function watchSentinels(client: RedisClient, ...rest: RestOf<typeof SentinelWatch>): SentinelWatch | null {
  const options = client.options as RedisOptions;
  return options.sentinels && !isCluster(client) ? new SentinelWatch(options, ...rest) : null;
}

type RestOf<Type extends new (...args: any) => any> =
  ConstructorParameters<Type> extends [any, ...infer Rest] ? Rest : never;
