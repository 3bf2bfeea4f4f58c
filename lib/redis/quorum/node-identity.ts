import { type Clock } from '../../core/clock.js';
import { type LockError, LockConfigurationError, LockStoreError } from '../../core/lock.errors.js';
import { type Reporter } from '../../core/reporter.js';
import { type SingleClient } from '../client/redis-client.js';
import { type ServerFacts, readServerFacts } from '../connection/server-facts.js';
import { type RedisLockStore } from '../redis-lock-store.js';
import { NODE_INFO_TIMEOUT_MS, ROLE_RECHECK_MS } from '../timing.js';

/** The server that a connection leads to. */
type NodeServer = Pick<ServerFacts, 'master'> & { readonly runId: string };

/** The last question that was sent on one connection. */
interface Question {
  readonly epoch: number;
  readonly server: Promise<NodeServer>;
  /** The answer; before it comes, the one to the question before. */
  known: NodeServer | undefined;
  /** When it is asked again, on the monotonic clock: the server may be demoted or promoted. */
  readonly until: number;
}

/**
 * Which server a node leads to: asked on each connection, since the next one may lead to another server, and now and then, since an
 * operator may demote it. A server has one vote: of the nodes that lead to the same one, the first of the list has it.
 */
export class NodeIdentity {
  #question: Question | null = null;
  /** The connection on which the question failed although the connection was not lost. */
  #silentEpoch = -1;
  #wasMaster = false;
  #lastReported: string | undefined;
  /** The nodes that have led to other servers while this one led to its own: the configuration names different servers. */
  readonly #apartFrom = new Set<NodeIdentity>();

  /** `all`: the identities of all nodes of the quorum, in the order of the list. */
  constructor(
    private readonly store: RedisLockStore,
    private readonly all: readonly NodeIdentity[],
    private readonly clock: Clock,
    private readonly reporter: Reporter,
  ) {}

  /** The run id of the server that the present connection leads to; undefined: unknown. */
  get runId(): string | undefined {
    return this.#known?.runId;
  }

  /** Whether the node has never been seen to lead to a master, and may soon report where it leads. */
  get isNew(): boolean {
    const { epoch, outage } = this.store.commands;
    return !this.#wasMaster && this.#known === undefined && outage === null && epoch !== this.#silentEpoch;
  }

  /** Why the node has no vote: its server is a replica, or also that of another node. Null: it has one, or is unknown. */
  get fault(): LockError | null {
    const known = this.#known;
    if (known?.master !== undefined) return this.#replicaFault(known.master);
    const before = this.all.slice(0, this.all.indexOf(this));
    const same = known && before.find(({ runId }) => runId === known.runId);
    return same ? this.#sameFault(same) : null;
  }

  /**
   * Makes sure that the node leads to a master of its own; resolves with the run id.
   * @throws LockConfigurationError for a quorum that is set up wrongly; LockStoreError while the node has no vote
   */
  async check(): Promise<string> {
    const asked = this.identify();
    // The question was sent before the vote, and `isStill` waits for its answer.
    const { runId } = this.#known ?? (await asked);
    if (this.fault) throw this.fault;
    if (this.runId === runId) return runId;
    throw withoutVote(`The connection to ${this.#address} was lost before it was known where it leads.`);
  }

  /** Whether the server that voted is known to be the same, and to be a master of its own still. */
  async isStill(runId: string): Promise<boolean> {
    await this.identify().catch(() => undefined);
    return this.fault === null && this.runId === runId;
  }

  /** @throws LockStoreError */
  identify(): Promise<NodeServer> {
    const { epoch } = this.store.commands;
    if (this.#question?.epoch === epoch && this.clock.now() < this.#question.until) return this.#question.server;
    const until = this.clock.now() + ROLE_RECHECK_MS;
    const question: Question = { epoch, server: readServer(this.store), known: this.#known, until };
    this.#question = question;
    question.server.then(
      (server) => this.#onKnown(question, server),
      () => this.#onFailure(question),
    );
    return question.server;
  }

  get #address(): string {
    return this.store.commands.address;
  }

  get #known(): NodeServer | undefined {
    return this.#question?.epoch === this.store.commands.epoch ? this.#question.known : undefined;
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

  #onFailure(question: Question): void {
    if (this.store.commands.outage === null) this.#silentEpoch = question.epoch;
    if (this.#question === question) this.#question = null;
  }

  /** Reports a fault once, until the node is well again. */
  #report(): void {
    const message = this.fault?.message;
    if (message !== undefined && message !== this.#lastReported) this.reporter.error(message);
    if (this.#known) this.#lastReported = message;
  }

  /** A server that was a master may become one again: the configuration is right. */
  #replicaFault(master: string): LockError {
    if (this.#wasMaster)
      return withoutVote(`${this.#address} is a replica of ${master} now, and has no vote meanwhile.`);
    return new LockConfigurationError(
      `Expected independent masters in \`connection\`, but ${this.#address} is a replica of ${master}.`,
    );
  }

  #sameFault(same: NodeIdentity): LockError {
    const addresses = `${same.#address} and ${this.#address}`;
    if (this.#apartFrom.has(same)) {
      return withoutVote(`${addresses} lead to the same server now, and the second has no vote meanwhile.`);
    }
    return new LockConfigurationError(
      `Expected independent masters in \`connection\`, but ${addresses} are the same server.`,
    );
  }
}

const withoutVote = (message: string): LockStoreError => new LockStoreError(message, { wasSent: false });

/** Asks a node which server it leads to. @throws LockStoreError */
async function readServer(store: RedisLockStore): Promise<NodeServer> {
  const { runId, master } = readServerFacts(await askServer(store, 'INFO', (client) => client.info()));
  if (runId !== undefined) return { runId, master };
  throw withoutVote('The server does not report its run id (INFO server). A quorum needs servers that do.');
}

/** The time of a server, in milliseconds. @throws LockStoreError */
export async function readTime(store: RedisLockStore): Promise<number> {
  return Math.floor((await askServer(store, 'TIME', (client) => client.time())) / 1_000);
}

/** Asks a node about its server. No lock was requested yet, whatever fails here. */
async function askServer<T>(
  store: RedisLockStore,
  name: string,
  send: (client: SingleClient) => Promise<T>,
): Promise<T> {
  const { commands } = store;
  const client = commands.liveClient() as SingleClient;
  try {
    return await commands.send(client, () => send(client), { subject: name, timeoutMs: NODE_INFO_TIMEOUT_MS });
  } catch (error) {
    const { message, retryable } = error as LockStoreError;
    throw new LockStoreError(message, { cause: error, retryable, wasSent: false });
  }
}
