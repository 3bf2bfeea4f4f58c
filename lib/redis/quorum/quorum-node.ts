import { type Clock } from '../../core/clock.js';
import { Releaser } from '../../core/hold/releaser.js';
import { type LockError, LockConfigurationError, LockStoreError, mayBeCarriedOut } from '../../core/lock.errors.js';
import { type Randomness } from '../../core/randomness.js';
import { type Reporter } from '../../core/reporter.js';
import {
  type AcquireReply,
  type AcquireRequest,
  type ReleaseReply,
  type ReleaseRequest,
} from '../../core/store/lock-store.js';
import { TimerQueue } from '../../core/timer-queue.js';
import { type SingleClient } from '../client/redis-client.js';
import { readableText } from '../connection/error-advice.js';
import { isRetryable } from '../connection/redis-errors.js';
import { type ServerFacts, readServerFacts } from '../connection/server-facts.js';
import { type RedisLockStore } from '../redis-lock-store.js';
import { MAX_UNANSWERED, NODE_INFO_TIMEOUT_MS, ROLE_RECHECK_MS } from '../timing.js';

type Send<T> = (store: RedisLockStore) => Promise<T>;

/** The server of a connection. */
type NodeServer = Pick<ServerFacts, 'master'> & { readonly runId: string };

/** The last request for the identity of the server on one connection. */
interface Question {
  readonly epoch: number;
  readonly server: Promise<NodeServer>;
  /** The answer; before it arrives, the answer to the earlier request. */
  known: NodeServer | undefined;
  /** When it is asked again, on the monotonic clock: the server may be demoted or promoted. */
  readonly until: number;
}

/**
 * One master of a quorum. Its server is identified on each connection, because the next connection may lead to another server, and at
 * intervals, because an operator may demote it. A server has one vote: if several nodes lead to the same server, the first of the
 * list has it.
 */
export class QuorumNode {
  /** Sends the releases that the node did not confirm. */
  readonly #releaser: Releaser;
  /** These releases, by attempt and key. */
  readonly #kept = new Set<string>();
  readonly #timers: TimerQueue;
  /** Attempts with an acquire in flight. */
  readonly #acquiring = new Set<string>();
  /** Attempts with an acquire that had no answer, and may still reach the node. */
  readonly #unanswered = new Set<string>();
  #isClosed = false;
  #question: Question | null = null;
  /** The connection on which the identification failed although the connection was not lost. */
  #silentEpoch = -1;
  #wasMaster = false;
  #lastReported: string | undefined;
  /** The nodes that led to other servers at the same time as this one: their configuration names different servers. */
  readonly #apartFrom = new Set<QuorumNode>();

  /** `all`: the nodes of the quorum, in the order of the list. */
  constructor(
    readonly store: RedisLockStore,
    private readonly all: readonly QuorumNode[],
    private readonly clock: Clock,
    random: Randomness,
    private readonly reporter: Reporter,
  ) {
    this.#timers = new TimerQueue(clock);
    const release = (request: ReleaseRequest, timeoutMs: number): Promise<ReleaseReply> =>
      this.ask((one) => one.release(request, timeoutMs));
    // A majority has confirmed the release, or reports that it could not.
    const warn = (line: string): void => reporter.debug(`${this.name}: ${line}`);
    this.#releaser = new Releaser({
      clock,
      random,
      timers: this.#timers,
      store: { release },
      reporter: { ...reporter, warn },
    });
  }

  /** Whether commands are known not to reach it now. */
  get isAway(): boolean {
    return this.store.commands.outage !== null;
  }

  /** Its address, without a password. */
  get name(): string {
    return this.store.commands.address;
  }

  /** The run id of the server of the present connection; undefined: unknown. */
  get runId(): string | undefined {
    return this.#known?.runId;
  }

  /** Whether it must be identified before a vote: it never was and may soon report its server, or its configuration is wrong. */
  get isUnidentified(): boolean {
    const isSilent = this.isAway || this.store.commands.epoch === this.#silentEpoch;
    return (!this.#wasMaster && !this.#known && !isSilent) || this.configurationError !== null;
  }

  /** Why it cannot be a node of this quorum. */
  get configurationError(): LockConfigurationError | null {
    const fault = this.#fault;
    return fault instanceof LockConfigurationError ? fault : null;
  }

  /** Identifies its server. @throws LockStoreError */
  identify(): Promise<NodeServer> {
    const { epoch } = this.store.commands;
    if (this.#question?.epoch === epoch && this.clock.now() < this.#question.until) return this.#question.server;
    const until = this.clock.now() + ROLE_RECHECK_MS;
    const question: Question = { epoch, server: readServer(this.store), known: this.#known, until };
    this.#question = question;
    question.server.then(
      (server) => this.#onKnown(question, server),
      () => this.#onUnknown(question),
    );
    return question.server;
  }

  /**
   * Asks for a valid answer: that of an independent master. Rejects at once if the node is known to be away, so that no call waits
   * for its vote.
   * @throws LockStoreError; LockConfigurationError for a node with a wrong configuration
   */
  async ask<T>(send: Send<T>, onUncounted?: (answer: T) => void): Promise<T> {
    const { outage } = this.store.commands;
    if (!outage) return this.askPatiently(send, onUncounted);
    const retryable = isRetryable(outage);
    throw new LockStoreError(readableText(outage), { cause: outage, retryable, wasSent: false });
  }

  /** The same, but waits for a node that is away. `onUncounted` receives an answer that does not count. */
  async askPatiently<T>(send: Send<T>, onUncounted?: (answer: T) => void): Promise<T> {
    const runId = await this.#check();
    const answer = await send(this.store);
    await this.identify().catch(() => undefined);
    const fault = this.#fault;
    if (!fault && this.runId === runId) return answer;
    // The command was sent again after a lost connection, perhaps to another server; or the server was demoted.
    onUncounted?.(answer);
    const text = fault?.message ?? `The connection to ${this.name} was lost, and another server may have answered.`;
    throw new LockStoreError(text);
  }

  /** `onLate` also receives a reply that does not count. */
  async acquire(
    request: AcquireRequest,
    timeoutMs: number,
    onLate: (reply: AcquireReply) => void,
  ): Promise<AcquireReply> {
    const { attempt } = request;
    const send = async (store: RedisLockStore): Promise<AcquireReply> => {
      this.#acquiring.add(attempt);
      try {
        const reply = await store.acquire(request, timeoutMs, onLate);
        if ('unanswered' in reply && reply.unanswered) this.#noteUnanswered(attempt);
        return reply;
      } catch (error) {
        if (mayBeCarriedOut(error)) this.#noteUnanswered(attempt);
        throw error;
      } finally {
        this.#acquiring.delete(attempt);
      }
    };
    return this.askAbout(attempt, send, onLate);
  }

  /** Asks about an attempt, unless its acquire is in flight: a grant that replicas do not confirm will be given back. */
  async askAbout<T>(attempt: string, send: Send<T>, onUncounted?: (answer: T) => void): Promise<T> {
    if (!this.#acquiring.has(attempt)) return this.ask(send, onUncounted);
    throw new LockStoreError(`${this.name} has not answered yet whether it grants the lock.`);
  }

  /** Releases now, or as soon as the node is back, until the lease is over. @throws LockStoreError when it is not released now */
  async release(given: ReleaseRequest, timeoutMs: number): Promise<ReleaseReply> {
    const { attempt } = given;
    // Built when it is sent: an acquire that was requested before it has been sent by then.
    const request = (): ReleaseRequest => {
      const mayArrive = this.#acquiring.has(attempt) || this.#unanswered.has(attempt);
      return mayArrive ? { ...given, unanswered: true } : given;
    };
    try {
      return await this.ask((store) => store.release(request(), timeoutMs));
    } catch (error) {
      // A node with a wrong configuration was never asked for the lock.
      if (!(error instanceof LockConfigurationError)) this.releaseLater(request(), timeoutMs);
      throw error;
    }
  }

  /** Releases in the background. A remaining hold on a node blocks the next holder as soon as another node is away. */
  releaseLater(request: ReleaseRequest, timeoutMs: number): void {
    const name = `${request.attempt} ${request.key}`;
    if (this.#kept.has(name) || this.#isClosed) return;
    this.#kept.add(name);
    const onReleased = (): void => void this.#kept.delete(name);
    this.#releaser.giveBack(request, this.clock.now() + request.leaseMs, timeoutMs, { onReleased });
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#releaser.stop();
    this.#timers.close();
    await this.store.close();
  }

  /** Forgets the oldest attempt when there are too many; its acquire is still refused when it is too old. */
  #noteUnanswered(attempt: string): void {
    const [oldest] = this.#unanswered;
    if (this.#unanswered.size >= MAX_UNANSWERED) this.#unanswered.delete(oldest!);
    this.#unanswered.add(attempt);
  }

  get #known(): NodeServer | undefined {
    return this.#question?.epoch === this.store.commands.epoch ? this.#question.known : undefined;
  }

  /** Why it has no vote: its server is a replica, or also that of another node. Null: it has a vote, or its server is unknown. */
  get #fault(): LockError | null {
    const known = this.#known;
    if (!known) return null;
    if (known.master !== undefined) return this.#replicaFault(known.master);
    const same = this.all.slice(0, this.all.indexOf(this)).find(({ runId }) => runId === known.runId);
    return same ? this.#sameFault(same) : null;
  }

  /** Ensures that it leads to a separate master; resolves with the run id. @throws LockError while it has no vote */
  async #check(): Promise<string> {
    const asked = this.identify();
    // The request was sent before the vote, and its answer is awaited before the vote counts.
    const { runId } = this.#known ?? (await asked);
    const fault = this.#fault;
    if (fault) throw fault;
    if (this.runId === runId) return runId;
    throw withoutVote(`The connection to ${this.name} was lost before it was known where it leads.`);
  }

  #onKnown(question: Question, server: NodeServer): void {
    question.known = server;
    this.#wasMaster ||= server.master === undefined;
    for (const other of this.all) {
      if (other.runId === undefined || other.runId === this.runId) continue;
      this.#apartFrom.add(other);
      other.#apartFrom.add(this);
    }
    for (const one of this.all) one.#report();
  }

  #onUnknown(question: Question): void {
    if (!this.isAway) this.#silentEpoch = question.epoch;
    if (this.#question === question) this.#question = null;
  }

  /** Reports a fault once, until the node is well again. */
  #report(): void {
    const message = this.#fault?.message;
    if (message !== undefined && message !== this.#lastReported) this.reporter.error(message);
    if (this.#known) this.#lastReported = message;
  }

  /** A server that was a master may become one again: the configuration is right. */
  #replicaFault(master: string): LockError {
    if (this.#wasMaster) return withoutVote(`${this.name} is a replica of ${master} now, and has no vote meanwhile.`);
    return new LockConfigurationError(
      `Expected independent masters in \`connection\`, but ${this.name} is a replica of ${master}.`,
    );
  }

  #sameFault(same: QuorumNode): LockError {
    const addresses = `${same.name} and ${this.name}`;
    if (this.#apartFrom.has(same)) {
      return withoutVote(`${addresses} lead to the same server now, and the second has no vote meanwhile.`);
    }
    return new LockConfigurationError(
      `Expected independent masters in \`connection\`, but ${addresses} are the same server.`,
    );
  }
}

const withoutVote = (message: string): LockStoreError => new LockStoreError(message, { wasSent: false });

/** Identifies the server of a node. @throws LockStoreError */
async function readServer(store: RedisLockStore): Promise<NodeServer> {
  const { runId, master } = readServerFacts(await askServer(store, 'INFO', (client) => client.info()));
  if (runId !== undefined) return { runId, master };
  throw withoutVote('The server does not report its run id (INFO server). A quorum needs servers that do.');
}

/** The time of a server, in milliseconds. @throws LockStoreError */
export async function readTime(store: RedisLockStore): Promise<number> {
  return Math.floor((await askServer(store, 'TIME', (client) => client.time())) / 1_000);
}

/** Asks a node about its server. Whatever fails here, no lock was requested yet. */
async function askServer<T>(
  store: RedisLockStore,
  name: string,
  send: (client: SingleClient) => Promise<T>,
): Promise<T> {
  const { commands } = store;
  const client = commands.liveClient() as SingleClient;
  try {
    return await commands.send(() => send(client), { subject: name, timeoutMs: NODE_INFO_TIMEOUT_MS });
  } catch (error) {
    const { message, retryable } = error as LockStoreError;
    throw new LockStoreError(message, { cause: error, retryable, wasSent: false });
  }
}
