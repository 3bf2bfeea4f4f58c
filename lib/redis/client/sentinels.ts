import { type Clock } from '../../core/clock.js';
import { withoutRepeats } from '../../core/reporter.js';
import { readableText } from '../connection/error-advice.js';
import {
  CONNECT_TIMEOUT_MS,
  MAX_SENTINEL_RETRIES,
  MAX_SENTINELS,
  SENTINEL_COMMAND_TIMEOUT_MS,
  SENTINEL_PING_MS,
} from '../timing.js';
import {
  type ClientParts,
  type ConnectionPlan,
  inTime,
  type LeadsToMaster,
  type MasterWatch,
  SingleClient,
  type Target,
} from './redis-client.js';
import { type RedisNatMap } from './redis-connection.js';
import { addressText, isSameAddress, reachedBy, type ServerAddress } from './server-address.js';

/** Every sentinel announces the first when its view changes; the leader of a failover announces the second before that. */
const [SWITCHED, PROMOTED] = ['+switch-master', '+promoted-slave'] as const;

/** A group of sentinels, and how they and their master are reached. */
export interface SentinelPlan {
  readonly name: string;
  readonly sentinels: readonly ServerAddress[];
  /** How long one of them may take to answer. */
  readonly answerMs: number;
  /** Whether sentinels that others report are also watched. */
  readonly isOpenToOthers: boolean;
  readonly natMap?: RedisNatMap | undefined;
  /** The application decides where a connection leads: its address does not show whether that is the master. */
  readonly hasOwnRoute?: boolean;
  readonly sentinel: (at: ServerAddress) => ConnectionPlan;
  readonly master: (at: ServerAddress) => ConnectionPlan & { readonly target: Target };
}

/** Returns the plan of a connection, which queries the master each time that it is opened. */
export function planBySentinels(plan: SentinelPlan, parts: ClientParts): ConnectionPlan {
  const sentinels = new Sentinels(plan, parts);
  const [first] = plan.sentinels;
  const direct = plan.master(first!);
  const find = async (signal: AbortSignal): Promise<Target> => {
    const announced = await sentinels.master(signal);
    const { target } = plan.master(reachedBy(announced, plan.natMap));
    return { open: (listener) => target.open(listener), onReplica: () => sentinels.refute(announced) };
  };
  return {
    ...direct,
    address: `sentinel ${plan.name} of ${addressText(first!)}`,
    target: plan.hasOwnRoute ? direct.target : find,
    watchMaster: (onMaster) => new SentinelWatch(sentinels, onMaster, parts),
  };
}

/** The master according to a sentinel, by the address that it announces. */
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
class Sentinels {
  /** The master by the address that the sentinels announce, if it is known. */
  current: ServerAddress | null = null;
  readonly #known: Map<string, ServerAddress>;
  readonly #views = new Map<string, View>();
  readonly #listeners = new Set<MasterListener>();
  #announcements = 0;
  /** Sentinels that have not answered: the vote no longer waits for them. */
  #isSettled = false;

  constructor(
    readonly plan: SentinelPlan,
    private readonly parts: ClientParts,
  ) {
    this.#known = new Map(plan.sentinels.map((at) => [addressText(at), at]));
  }

  /** Connects to one of them. Where addresses change, sentinels that the application does not name may be gone for good. */
  open(at: ServerAddress, isNamed: boolean): SingleClient {
    const limit = isNamed ? {} : { maxFailures: MAX_SENTINEL_RETRIES };
    return SingleClient.opened({ ...this.plan.sentinel(at), ...limit }, this.parts);
  }

  /** Returns a function that removes the listener. */
  onMaster(listener: MasterListener): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** Asks all sentinels at once, and waits until more than half agree, or for a second. */
  async master(signal: AbortSignal): Promise<ServerAddress> {
    const { clock } = this.parts;
    const [connections, answers]: [SingleClient[], ServerAddress[]] = [[], []];
    let isLate = false;
    let [cancelLate, giveUp] = [(): void => undefined, (): void => undefined];
    const areAgreed = (): boolean =>
      answers.filter((one) => isSameAddress(one, this.current ?? {})).length * 2 > this.#known.size;
    const enough = new Promise<void>((resolve, reject) => {
      giveUp = () => reject(new Error('no answer in time'));
      const check = (): void => void ((areAgreed() || (isLate && answers.length > 0)) && resolve());
      cancelLate = clock.setTimer(() => {
        isLate = true;
        check();
      }, SENTINEL_COMMAND_TIMEOUT_MS);
      const asks = [...this.#known].map(async ([name, at]) => {
        const connection = this.open(at, true);
        connections.push(connection);
        const ask = this.#askFirst(connection, name);
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
    return this.current!;
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
  heard(sentinel: string, master: ServerAddress, isAnnouncement: boolean): void {
    const before = this.#views.get(sentinel);
    const isNews = isAnnouncement || !before || !isSameAddress(before.master, master);
    if (isAnnouncement) this.#announcements += 1;
    if (isNews) this.#views.set(sentinel, { master, announcement: isAnnouncement ? this.#announcements : 0 });
    this.#decide();
  }

  /** Decides by the answers so far. */
  settle(): void {
    this.#isSettled = true;
    this.#decide();
  }

  /** The server at this address reports that it is a replica: what names it is outdated, and may come from sentinels that are gone. */
  refute(at: ServerAddress): void {
    for (const [name, { master }] of this.#views) if (isSameAddress(master, at)) this.#views.delete(name);
    this.#decide();
  }

  /** Asks a sentinel for the master; null: it has none of this name. */
  async ask(connection: SingleClient, sentinel: string): Promise<ServerAddress | null> {
    const { name, answerMs } = this.plan;
    const answer = connection.call(['SENTINEL', 'GET-MASTER-ADDR-BY-NAME', name]);
    const [host, port] = ((await inTime(answer, answerMs, this.parts.clock)) ?? []) as string[];
    if (!host) return null;
    const master = { host, port: Number(port) };
    this.heard(sentinel, master, false);
    return master;
  }

  #decide(): void {
    const views = [...this.#known.keys()].flatMap((name) => this.#views.get(name) ?? []);
    const votesFor = ({ master }: View): number => views.filter((one) => isSameAddress(one.master, master)).length;
    const isCurrent = ({ master }: View): number => Number(isSameAddress(master, this.current ?? {}));
    const [best] = views.toSorted(
      (a, b) => b.announcement - a.announcement || votesFor(b) - votesFor(a) || isCurrent(b) - isCurrent(a),
    );
    if (!best || isCurrent(best)) return;
    if (best.announcement === 0 && !this.#isSettled && votesFor(best) * 2 <= this.#known.size) return;
    const isFirst = this.current === null;
    this.current = best.master;
    for (const listener of this.#listeners) listener(best.master, isFirst);
  }

  async #askFirst(connection: SingleClient, sentinel: string): Promise<ServerAddress> {
    await connection.connect();
    const master = await this.ask(connection, sentinel);
    if (!master) throw new Error(`the sentinel has no master of the name "${this.plan.name}"`);
    return master;
  }
}

/**
 * Learns from all sentinels that another server has become master. Sentinels direct new clients there seconds before they
 * demote the old one, and a lock renewed on the old one would overlap with the next holder's. The connections are ours,
 * one per sentinel and store: a library would open one per sentinel and connection, asks the sentinel that comes first, and
 * misses what that sentinel learns while the library connects.
 */
class SentinelWatch implements MasterWatch {
  readonly #links = new Map<string, SingleClient>();
  readonly #stops: (() => void)[];
  readonly #clock: Clock;
  #isRefused = false;
  #isClosed = false;

  constructor(
    private readonly sentinels: Sentinels,
    private readonly onMaster: (leadsToMaster: LeadsToMaster) => void,
    private readonly parts: ClientParts,
  ) {
    this.#clock = parts.clock;
    this.#stops = [
      sentinels.onMaster((master, isFirst) => this.#onMaster(master, isFirst)),
      parts.clock.setTimer(() => sentinels.settle(), SENTINEL_COMMAND_TIMEOUT_MS),
    ];
    for (const sentinel of sentinels.plan.sentinels) this.#add(sentinel, true);
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

  #add(at: ServerAddress, isNamed: boolean): void {
    const name = addressText(at);
    const { sentinels } = this;
    if (this.#isClosed || this.#links.has(name) || !(isNamed || sentinels.add(at))) return;
    const link = sentinels.open(at, isNamed);
    this.#links.set(name, link);
    const debug = withoutRepeats((line) => this.parts.reporter.debug(line));
    const onError = (error: Error): void => debug(`Redis sentinel: ${readableText(error)}`);
    let isListening = false;
    let cancelPing = (): void => undefined;
    const pingLater = (): void => {
      cancelPing = this.#clock.setTimer(() => {
        const ask = () => (isListening ? this.#inTime(link.call(['ping'])) : sentinels.ask(link, name));
        if (link.isWritable) reconnectUnless(link, [ask()]);
        pingLater();
      }, SENTINEL_PING_MS);
    };
    const subscribe = async (): Promise<void> => void (isListening = await this.#subscribe(link));
    link.on('error', onError);
    link.on('message', (channel, text) => this.#onMessage(name, channel, text.split(' ')));
    link.on('closed', () => (isListening = false));
    link.on('ready', () =>
      reconnectUnless(link, [sentinels.ask(link, name), this.#askForOthers(link, onError), subscribe()]),
    );
    link.once('ended', () => {
      cancelPing();
      this.#links.delete(name);
      if (!isNamed) sentinels.remove(name);
    });
    pingLater();
  }

  async #askForOthers(link: SingleClient, onError: (error: Error) => void): Promise<void> {
    const { name, isOpenToOthers, natMap } = this.sentinels.plan;
    const answer = link.call(['SENTINEL', 'SENTINELS', name]);
    for (const fields of (await this.#inTime(answer)) as string[][]) {
      const valueOf = (field: string) => fields[fields.indexOf(field) + 1]!;
      if (!isOpenToOthers || valueOf('flags').includes('disconnected')) continue;
      try {
        this.#add(reachedBy({ host: valueOf('ip'), port: Number(valueOf('port')) }, natMap), false);
      } catch (error) {
        onError(error as Error);
      }
    }
  }

  /** Sent together with the query for the master, and after it: every change after that answer is announced. */
  async #subscribe(link: SingleClient): Promise<boolean> {
    try {
      await this.#inTime(Promise.all([SWITCHED, PROMOTED].map((channel) => link.subscribe(channel))));
      return true;
    } catch (error) {
      if ((error as Error).name !== 'ReplyError') throw error;
      const text = `Failovers are noticed up to ${SENTINEL_PING_MS} ms late, by polling: ${(error as Error).message}`;
      if (!this.#isRefused) this.parts.reporter.warn(text);
      this.#isRefused = true;
      return false;
    }
  }

  /** `+switch-master`: `name host port host port`; `+promoted-slave`: `slave name host port @ name host port`. */
  #onMessage(sentinel: string, channel: string, words: readonly string[]): void {
    const { name } = this.sentinels.plan;
    const announce = (at: number): void =>
      this.sentinels.heard(sentinel, { host: words[at]!, port: Number(words[at + 1]) }, true);
    if (channel === SWITCHED && words[0] === name) announce(3);
    if (channel === PROMOTED && words[5] === name) announce(2);
  }

  /** Where the application decides where a connection leads, only a change counts, and not the first answer. */
  #onMaster(announced: ServerAddress, isFirst: boolean): void {
    const { hasOwnRoute, natMap } = this.sentinels.plan;
    if (hasOwnRoute) return this.onMaster(() => isFirst);
    let master: ServerAddress | undefined;
    try {
      master = reachedBy(announced, natMap);
    } catch {
      // A connection that leaves the present server reports it.
    }
    this.onMaster(({ peer }) => master !== undefined && peer !== null && isSameAddress(peer, master));
  }

  #inTime<T>(answer: Promise<T>): Promise<T> {
    return inTime(answer, this.sentinels.plan.answerMs, this.#clock);
  }
}

/** Reconnects when an answer is missing at its deadline. A refusal is an answer. */
function reconnectUnless(link: SingleClient, answers: readonly Promise<unknown>[]): void {
  Promise.all(answers).catch((error: Error) => {
    if (error.name !== 'ReplyError' && link.isWritable) link.reconnect();
  });
}
