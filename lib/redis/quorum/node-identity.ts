import { type Clock } from '../../core/clock.js';
import { type LockError, LockConfigurationError, LockStoreError } from '../../core/lock.errors.js';
import { type Reporter } from '../../core/reporter.js';
import { type RedisLockStore } from '../redis-lock-store.js';
import { type NodeServer, readServer } from './node-server.js';

/** How soon a replica is asked again: it may be promoted while its connections stay. */
const REPLICA_MS = 1_000;

/** What was asked of one connection. */
interface Asked {
  readonly epoch: number;
  readonly server: Promise<NodeServer>;
  known?: NodeServer;
  /** When it is to be asked again, on the monotonic clock. */
  until: number;
}

/**
 * Which server a node leads to: asked once for each connection, since an address may lead to another server then. A
 * server has one vote: of the nodes that lead to the same one, the first of the list has it.
 */
export class NodeIdentity {
  #asked: Asked | null = null;
  /** The connection of which it could not be learned, though it was there. */
  #silentEpoch = -1;
  #wasMaster = false;
  #told: string | undefined;
  /** Those that led to other servers while this one led to its own: with them it was set up rightly. */
  readonly #apartFrom = new Set<NodeIdentity>();

  /** `all`: of the nodes of the quorum, in the order of the list. */
  constructor(
    private readonly store: RedisLockStore,
    private readonly all: readonly NodeIdentity[],
    private readonly clock: Clock,
    private readonly reporter: Reporter,
  ) {}

  /** The run id of the server to which the present connection leads; undefined: not known. */
  get runId(): string | undefined {
    return this.#known?.runId;
  }

  /** Whether nobody knows yet, and somebody soon may, whether it is a master of its own. */
  get isNew(): boolean {
    const { epoch, outage } = this.store.commands;
    return !this.#wasMaster && this.#known === undefined && outage === null && epoch !== this.#silentEpoch;
  }

  /** Why it has no vote: its server is a replica, or that of another node; null: it has one, or is not known. */
  get fault(): LockError | null {
    const known = this.#known;
    if (known?.master !== undefined) return this.#replicaFault(known.master);
    const before = this.all.slice(0, this.all.indexOf(this));
    const same = known && before.find(({ runId }) => runId === known.runId);
    return same ? this.#sameFault(same) : null;
  }

  /**
   * Makes sure that it leads to a master of its own, and gives the run id.
   * @throws LockConfigurationError for a quorum that is set up wrongly; LockStoreError while it has no vote
   */
  async check(): Promise<string> {
    const { runId } = await this.identify();
    if (this.fault) throw this.fault;
    if (this.runId === runId) return runId;
    throw withoutVote(`The connection to ${this.#address} was lost while it told where it leads.`);
  }

  /** @throws LockStoreError */
  identify(): Promise<NodeServer> {
    const { epoch } = this.store.commands;
    if (this.#asked?.epoch === epoch && this.clock.now() < this.#asked.until) return this.#asked.server;
    const asked: Asked = { epoch, server: readServer(this.store), until: Infinity };
    this.#asked = asked;
    asked.server.then(
      (server) => this.#onKnown(asked, server),
      () => this.#onSilence(asked),
    );
    return asked.server;
  }

  get #address(): string {
    return this.store.commands.address;
  }

  get #known(): NodeServer | undefined {
    return this.#asked?.epoch === this.store.commands.epoch ? this.#asked.known : undefined;
  }

  #onKnown(asked: Asked, server: NodeServer): void {
    asked.known = server;
    if (server.master !== undefined) asked.until = this.clock.now() + REPLICA_MS;
    else this.#wasMaster = true;
    for (const other of this.all) {
      if (other.runId === undefined || other.runId === this.runId) continue;
      this.#apartFrom.add(other);
      other.#apartFrom.add(this);
    }
    for (const one of this.all) one.#tell();
  }

  #onSilence(asked: Asked): void {
    if (this.store.commands.outage === null) this.#silentEpoch = asked.epoch;
    if (this.#asked === asked) this.#asked = null;
  }

  /** Once, until it is well again. */
  #tell(): void {
    const message = this.fault?.message;
    if (message !== undefined && message !== this.#told) this.reporter.error(message);
    if (this.#known) this.#told = message;
  }

  /** A server that was a master may be one again: it was set up rightly. */
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
