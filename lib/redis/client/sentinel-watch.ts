import { isIP } from 'node:net';
import { type Clock } from '../../core/clock.js';
import { withoutRepeats } from '../../core/reporter.js';
import { readableText } from '../connection/error-advice.js';
import { MAX_SENTINELS, SENTINEL_PING_MS } from '../timing.js';
import { type ClientParts } from './client-library.js';
import { type LeadsToMaster, type MasterWatch } from './redis-client.js';
import { type ServerAddress, addressText } from './server-address.js';

/** Every sentinel announces the first when its view changes; the leader of a failover announces the second before that. */
const [SWITCHED, PROMOTED] = ['+switch-master', '+promoted-slave'] as const;

/** A connection of our own to a sentinel. Each command has a deadline, and rejects with a `ReplyError` for a refusal. */
export interface SentinelConnection {
  readonly isReady: boolean;
  onError(listener: (error: Error) => void): void;
  onReady(listener: () => void): void;
  onClosed(listener: () => void): void;
  onEnded(listener: () => void): void;
  onMessage(listener: (channel: string, text: string) => void): void;
  command(name: string, ...words: readonly string[]): Promise<unknown>;
  subscribe(...channels: readonly string[]): Promise<unknown>;
  ping(): Promise<unknown>;
  reconnect(): void;
  close(): Promise<void>;
}

/** A group of sentinels. */
export interface SentinelGroup {
  readonly name: string;
  readonly sentinels: readonly ServerAddress[];
  /** Whether sentinels that others report are watched, too. */
  readonly isOpenToOthers: boolean;
  reachedBy(address: ServerAddress): ServerAddress;
  /** Connects by itself. Where addresses change, sentinels that the application does not name may be gone for good. */
  open(address: ServerAddress, isNamed: boolean): SentinelConnection;
}

/**
 * Learns from all sentinels that another server is the master now. Sentinels direct new clients there seconds before they
 * demote the old one, and a lock renewed on the old one would exist beside the next holder's. The connections are our own,
 * one per sentinel and store: a library would open one per sentinel and connection, asks the sentinel that comes first, and
 * misses what that sentinel learns while the library connects.
 */
export class SentinelWatch implements MasterWatch {
  readonly #links = new Map<string, SentinelLink>();
  #isRefused = false;
  #isClosed = false;

  constructor(
    private readonly group: SentinelGroup,
    private readonly onMaster: (leadsToMaster: LeadsToMaster) => void,
    private readonly parts: ClientParts,
  ) {
    for (const sentinel of group.sentinels) this.#add(sentinel, true);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.all([...this.#links.values()].map((link) => link.close()));
  }

  #add(sentinel: ServerAddress, isNamed: boolean): void {
    const name = addressText(sentinel);
    if (this.#isClosed || this.#links.has(name) || this.#links.size >= MAX_SENTINELS) return;
    const { group, parts } = this;
    const connection = group.open(sentinel, isNamed);
    const debug = withoutRepeats((line) => parts.reporter.debug(line));
    connection.onError((error) => debug(`Redis sentinel: ${readableText(error)}`));
    connection.onEnded(() => this.#links.delete(name));
    const listener: SentinelListener = {
      onMaster: (master, isFirst) => this.#onMaster(group.reachedBy(master), isFirst),
      onSentinel: (other) => group.isOpenToOthers && this.#add(group.reachedBy(other), false),
      onRefused: (error) => this.#onRefused(error),
    };
    this.#links.set(name, new SentinelLink(connection, group.name, listener, parts.clock));
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
    private readonly connection: SentinelConnection,
    private readonly name: string,
    private readonly listener: SentinelListener,
    private readonly clock: Clock,
  ) {
    connection.onMessage((channel, text) => this.#onMessage(channel, text.split(' ')));
    connection.onClosed(() => (this.#isListening = false));
    connection.onReady(() => this.#reconnectUnless([this.#askMaster(), this.#askSentinels(), this.#subscribe()]));
    this.#pingLater();
  }

  async close(): Promise<void> {
    this.#cancelPing?.();
    await this.connection.close();
  }

  async #askMaster(): Promise<void> {
    const answer = await this.connection.command('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', this.name);
    const [host, port] = (answer ?? []) as string[];
    if (host) this.#onMaster(host, port!);
  }

  async #askSentinels(): Promise<void> {
    const others = (await this.connection.command('SENTINEL', 'SENTINELS', this.name)) as string[][];
    for (const fields of others) {
      const valueOf = (field: string) => fields[fields.indexOf(field) + 1]!;
      if (valueOf('flags').includes('disconnected')) continue;
      this.listener.onSentinel({ host: valueOf('ip'), port: Number(valueOf('port')) });
    }
  }

  /** Sent together with the question for the master, and after it: every change after that answer is announced. */
  async #subscribe(): Promise<void> {
    try {
      await this.connection.subscribe(SWITCHED, PROMOTED);
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
      if (this.connection.isReady) {
        this.#reconnectUnless([this.#isListening ? this.connection.ping() : this.#askMaster()]);
      }
      this.#pingLater();
    }, SENTINEL_PING_MS);
  }

  /** Reconnects when an answer is missing at the deadline that the connection has for each. A refusal is an answer. */
  #reconnectUnless(answers: readonly Promise<unknown>[]): void {
    Promise.all(answers).catch((error: Error) => {
      if (error.name !== 'ReplyError' && this.connection.isReady) this.connection.reconnect();
    });
  }
}
