import { isIP } from 'node:net';
import { withoutRepeats } from '../../core/reporter.js';
import { readableText } from '../connection/error-advice.js';
import {
  CONNECT_TIMEOUT_MS,
  MAX_SENTINEL_RETRIES,
  MAX_SENTINELS,
  SENTINEL_COMMAND_TIMEOUT_MS,
  SENTINEL_PING_MS,
} from '../timing.js';
import { type ClientParts } from './client-library.js';
import { type ConnectionPlan, inTime, OwnConnection, type Target } from './connection.js';
import { type LeadsToMaster, type MasterWatch, type SingleClient } from './redis-client.js';
import { type RedisNatMap } from './redis-connection.js';
import { addressText, isSameAddress, reachedBy, type ServerAddress } from './server-address.js';

/** Every sentinel announces the first when its view changes; the leader of a failover announces the second before that. */
const [SWITCHED, PROMOTED] = ['+switch-master', '+promoted-slave'] as const;

/** A group of sentinels. */
export interface SentinelGroup {
  readonly name: string;
  readonly sentinels: readonly ServerAddress[];
  /** How long one of them may take to answer. */
  readonly answerMs: number;
  /** Whether sentinels that others report are also watched. */
  readonly isOpenToOthers: boolean;
  readonly natMap?: RedisNatMap | undefined;
  /** Connects by itself. Where addresses change, sentinels that the application does not name may be gone for good. */
  open(address: ServerAddress, isNamed: boolean): SingleClient;
}

/** How the master of some sentinels is reached. */
interface SentinelPlan extends Omit<SentinelGroup, 'open'> {
  readonly sentinel: (at: ServerAddress) => ConnectionPlan;
  readonly master: (at: ServerAddress) => ConnectionPlan & { readonly target: Target };
}

/** Returns the plan of a connection, which queries the master each time that it is opened. */
export function planBySentinels({ sentinel, master, ...group }: SentinelPlan, parts: ClientParts): ConnectionPlan {
  const open = (at: ServerAddress, isNamed: boolean): SingleClient =>
    OwnConnection.opened({ ...sentinel(at), ...(!isNamed && { maxFailures: MAX_SENTINEL_RETRIES }) }, parts);
  const sentinels = new Sentinels({ ...group, open }, parts);
  const [first] = group.sentinels;
  return {
    ...master(first!),
    address: `sentinel ${group.name} of ${addressText(first!)}`,
    target: async (signal) => {
      const at = await sentinels.master(signal);
      const { target } = master(at);
      return { open: (listener) => target.open(listener), onReplica: () => sentinels.refute(at) };
    },
    watchMaster: (onMaster) => sentinels.watch(onMaster),
  };
}

/** The master according to a sentinel. */
interface View {
  readonly master: ServerAddress;
  /** The order of the announcements; 0 for an answer. */
  readonly announcement: number;
}

/** Receives the master whenever it changes; `isFirst`: none was known before. */
type MasterListener = (master: ServerAddress, isFirst: boolean) => void;

/**
 * The single source for the master of a group. A sentinel that is cut off from the others still names the old master, so
 * no single one is trusted: the master is the one that was announced last, or else the one that most sentinels name. A sentinel
 * that restarts with its first configuration withdraws its announcement, and has one vote.
 */
export class Sentinels {
  readonly #known: Map<string, ServerAddress>;
  readonly #views = new Map<string, View>();
  readonly #listeners = new Set<MasterListener>();
  #announcements = 0;
  #master: ServerAddress | null = null;
  /** Sentinels that have not answered: the vote no longer waits for them. */
  #isSettled = false;

  constructor(
    readonly group: SentinelGroup,
    private readonly parts: ClientParts,
  ) {
    this.#known = new Map(group.sentinels.map((at) => [addressText(at), at]));
  }

  /** The master, if it is known. */
  get current(): ServerAddress | null {
    return this.#master;
  }

  /** Returns a function that removes the listener. */
  onMaster(listener: MasterListener): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  watch(onMaster: (leadsToMaster: LeadsToMaster) => void): SentinelWatch {
    return new SentinelWatch(this, onMaster, this.parts);
  }

  /** Asks all sentinels at once, and waits until more than half agree, or for a second. */
  async master(signal: AbortSignal): Promise<ServerAddress> {
    const { clock } = this.parts;
    const [connections, answers]: [SingleClient[], ServerAddress[]] = [[], []];
    let isLate = false;
    let [cancelLate, giveUp] = [(): void => undefined, (): void => undefined];
    const areAgreed = (): boolean =>
      answers.filter((one) => isSameAddress(one, this.#master ?? {})).length * 2 > this.#known.size;
    const enough = new Promise<void>((resolve, reject) => {
      giveUp = () => reject(new Error('no answer in time'));
      const check = (): void => void ((areAgreed() || (isLate && answers.length > 0)) && resolve());
      cancelLate = clock.setTimer(() => {
        isLate = true;
        check();
      }, SENTINEL_COMMAND_TIMEOUT_MS);
      const asks = [...this.#known].map(async ([name, at]) => {
        const connection = this.group.open(at, true);
        connections.push(connection);
        const ask = this.#ask(connection, name);
        answers.push(await inTime(ask, CONNECT_TIMEOUT_MS + SENTINEL_COMMAND_TIMEOUT_MS, clock));
        check();
      });
      void Promise.allSettled(asks).then((ends) => {
        if (answers.length > 0) return resolve();
        const reasons = ends.flatMap((end) => (end.status === 'rejected' ? [(end.reason as Error).message] : []));
        return reject(new Error(`All sentinels are unreachable. Last error: ${reasons.at(-1)}`));
      });
    });
    signal.addEventListener('abort', giveUp);
    try {
      await enough;
    } finally {
      signal.removeEventListener('abort', giveUp);
      cancelLate();
      for (const connection of connections) void connection.close();
    }
    if (!areAgreed()) this.settle();
    return this.#master!;
  }

  /** Adds another sentinel of the group; false: it was known, or there are enough. */
  add(at: ServerAddress): boolean {
    const name = addressText(at);
    if (this.#known.has(name) || this.#known.size >= MAX_SENTINELS) return false;
    this.#known.set(name, at);
    return true;
  }

  /** A sentinel has been removed permanently. */
  remove(name: string): void {
    this.#known.delete(name);
    this.#views.delete(name);
  }

  /** A sentinel has answered, or announced a switch. */
  heard(sentinel: string, announced: ServerAddress, isAnnouncement: boolean): ServerAddress {
    const master = reachedBy(announced, this.group.natMap);
    const before = this.#views.get(sentinel);
    const isNews = isAnnouncement || !before || !isSameAddress(before.master, master);
    if (isAnnouncement) this.#announcements += 1;
    if (isNews) this.#views.set(sentinel, { master, announcement: isAnnouncement ? this.#announcements : 0 });
    this.#decide();
    return master;
  }

  /** Decides by the answers so far. */
  settle(): void {
    this.#isSettled = true;
    this.#decide();
  }

  /** The server at this address reports that it is a replica: its announcement is outdated. */
  refute(at: ServerAddress): void {
    for (const [name, { master }] of this.#views) {
      if (isSameAddress(master, at)) this.#views.set(name, { master, announcement: 0 });
    }
    this.#decide();
  }

  /** The master that a sentinel names; null: it has none of this name. */
  async askForMaster(connection: SingleClient): Promise<ServerAddress | null> {
    const { name, answerMs } = this.group;
    const answer = connection.call(['SENTINEL', 'GET-MASTER-ADDR-BY-NAME', name]);
    const [host, port] = ((await inTime(answer, answerMs, this.parts.clock)) ?? []) as string[];
    return host ? { host, port: Number(port) } : null;
  }

  #decide(): void {
    const views = [...this.#known.keys()].flatMap((name) => this.#views.get(name) ?? []);
    const votesFor = ({ master }: View): number => views.filter((one) => isSameAddress(one.master, master)).length;
    const isCurrent = ({ master }: View): number => Number(isSameAddress(master, this.#master ?? {}));
    const [best] = views.toSorted(
      (a, b) => b.announcement - a.announcement || votesFor(b) - votesFor(a) || isCurrent(b) - isCurrent(a),
    );
    if (!best || isCurrent(best)) return;
    if (best.announcement === 0 && !this.#isSettled && votesFor(best) * 2 <= this.#known.size) return;
    const isFirst = this.#master === null;
    this.#master = best.master;
    for (const listener of this.#listeners) listener(best.master, isFirst);
  }

  async #ask(connection: SingleClient, name: string): Promise<ServerAddress> {
    await connection.connect();
    const master = await this.askForMaster(connection);
    if (!master) throw new Error(`the sentinel has no master of the name "${this.group.name}"`);
    return this.heard(name, master, false);
  }
}

/**
 * Learns from all sentinels that another server has become master. Sentinels direct new clients there seconds before they
 * demote the old one, and a lock renewed on the old one would overlap with the next holder's. The connections are ours,
 * one per sentinel and store: a library would open one per sentinel and connection, asks the sentinel that comes first, and
 * misses what that sentinel learns while the library connects.
 */
class SentinelWatch implements MasterWatch {
  readonly #links = new Map<string, SentinelLink>();
  readonly #stops: (() => void)[];
  #isRefused = false;
  #isClosed = false;

  constructor(
    private readonly sentinels: Sentinels,
    private readonly onMaster: (leadsToMaster: LeadsToMaster) => void,
    private readonly parts: ClientParts,
  ) {
    this.#stops = [
      sentinels.onMaster((master, isFirst) => this.#onMaster(master, isFirst)),
      parts.clock.setTimer(() => sentinels.settle(), SENTINEL_COMMAND_TIMEOUT_MS),
    ];
    for (const sentinel of sentinels.group.sentinels) this.#add(sentinel, true);
    this.repeat();
  }

  /** Reports the present master again, for a connection whose search began before that. */
  repeat(): void {
    if (this.sentinels.current) this.#onMaster(this.sentinels.current, true);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    for (const stop of this.#stops) stop();
    await Promise.all([...this.#links.values()].map((link) => link.close()));
  }

  #add(sentinel: ServerAddress, isNamed: boolean): void {
    const name = addressText(sentinel);
    const { sentinels, parts } = this;
    const { group } = sentinels;
    if (this.#isClosed || this.#links.has(name)) return;
    if (!isNamed && !sentinels.add(sentinel)) return;
    const connection = group.open(sentinel, isNamed);
    const debug = withoutRepeats((line) => parts.reporter.debug(line));
    connection.on('error', (error) => debug(`Redis sentinel: ${readableText(error)}`));
    connection.once('ended', () => {
      this.#links.delete(name);
      if (!isNamed) sentinels.remove(name);
    });
    const listener: SentinelListener = {
      onMaster: (master, isAnnouncement) => void sentinels.heard(name, master, isAnnouncement),
      onSentinel: (other) => group.isOpenToOthers && this.#add(reachedBy(other, group.natMap), false),
      onRefused: (error) => this.#onRefused(error),
    };
    this.#links.set(name, new SentinelLink(connection, sentinels, listener, parts));
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
  onMaster(master: ServerAddress, isAnnouncement: boolean): void;
  onSentinel(other: ServerAddress): void;
  /** The sentinel refuses the subscription. */
  onRefused(error: Error): void;
}

/** The connection to one sentinel. */
class SentinelLink {
  #isListening = false;
  #cancelPing: (() => void) | undefined;

  constructor(
    private readonly connection: SingleClient,
    private readonly sentinels: Sentinels,
    private readonly listener: SentinelListener,
    private readonly parts: ClientParts,
  ) {
    connection.on('message', (channel, text) => this.#onMessage(channel, text.split(' ')));
    connection.on('closed', () => (this.#isListening = false));
    connection.on('ready', () => this.#reconnectUnless([this.#askMaster(), this.#askSentinels(), this.#subscribe()]));
    this.#pingLater();
  }

  async close(): Promise<void> {
    this.#cancelPing?.();
    await this.connection.close();
  }

  async #askMaster(): Promise<void> {
    const master = await this.sentinels.askForMaster(this.connection);
    if (master) this.listener.onMaster(master, false);
  }

  async #askSentinels(): Promise<void> {
    const answer = this.connection.call(['SENTINEL', 'SENTINELS', this.sentinels.group.name]);
    for (const fields of (await this.#inTime(answer)) as string[][]) {
      const valueOf = (field: string) => fields[fields.indexOf(field) + 1]!;
      if (valueOf('flags').includes('disconnected')) continue;
      this.listener.onSentinel({ host: valueOf('ip'), port: Number(valueOf('port')) });
    }
  }

  /** Sent together with the query for the master, and after it: every change after that answer is announced. */
  async #subscribe(): Promise<void> {
    try {
      await this.#inTime(Promise.all([SWITCHED, PROMOTED].map((channel) => this.connection.subscribe(channel))));
      this.#isListening = true;
    } catch (error) {
      if ((error as Error).name !== 'ReplyError') throw error;
      this.listener.onRefused(error as Error);
    }
  }

  /** `+switch-master`: `name host port host port`; `+promoted-slave`: `slave name host port @ name host port`. */
  #onMessage(channel: string, words: readonly string[]): void {
    const { name } = this.sentinels.group;
    const announce = (at: number): void =>
      this.listener.onMaster({ host: words[at]!, port: Number(words[at + 1]) }, true);
    if (channel === SWITCHED && words[0] === name) announce(3);
    if (channel === PROMOTED && words[5] === name) announce(2);
  }

  #pingLater(): void {
    this.#cancelPing = this.parts.clock.setTimer(() => {
      if (this.connection.isWritable) {
        this.#reconnectUnless([this.#isListening ? this.#inTime(this.connection.call(['ping'])) : this.#askMaster()]);
      }
      this.#pingLater();
    }, SENTINEL_PING_MS);
  }

  #inTime<T>(answer: Promise<T>): Promise<T> {
    return inTime(answer, this.sentinels.group.answerMs, this.parts.clock);
  }

  /** Reconnects when an answer is missing at its deadline. A refusal is an answer. */
  #reconnectUnless(answers: readonly Promise<unknown>[]): void {
    Promise.all(answers).catch((error: Error) => {
      if (error.name !== 'ReplyError' && this.connection.isWritable) this.connection.reconnect();
    });
  }
}
