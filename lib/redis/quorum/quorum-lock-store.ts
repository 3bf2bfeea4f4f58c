import { type Clock } from '../../core/clock.js';
import {
  type AcquireReply,
  type AcquireRequest,
  type AdoptReply,
  type AdoptRequest,
  type LockStore,
  type ReleaseReply,
  type ReleaseRequest,
  type RenewReply,
  type RenewRequest,
  type WakeUpListener,
} from '../../core/store/lock-store.js';
import {
  type JobOfKey,
  type LastRun,
  type ListOptions,
  type LockState,
  type UnreadableKey,
} from '../../core/store/lock-state.js';
import { LISTING } from '../../core/store/subject.js';
import { type Reporter } from '../../core/reporter.js';
import { type Randomness } from '../../core/randomness.js';
import { jobsOf, listOf } from '../scan.js';
import { type RedisLockStore } from '../redis-lock-store.js';
import { QUORUM_READ_TIMEOUT_MS } from '../timing.js';
import { QuorumAcquirer } from './quorum-acquirer.js';
import { QuorumHistory } from './quorum-history.js';
import { QuorumNode } from './quorum-node.js';
import {
  checkAnswered,
  haveAnswered,
  mergeAdoptions,
  mergeReleases,
  mergeRenewals,
  mergeRuns,
  mergeStates,
  tooFew,
  valuesOf,
} from './quorum-merge.js';
import { QuorumWakeUps } from './quorum-wake-ups.js';
import { type Ballot, type Vote, gather, majorityOf } from './votes.js';

/** The options of a quorum, without its nodes. */
interface QuorumOptions {
  readonly clock: Clock;
  readonly random: Randomness;
  /** Receives a report of each node without a vote. */
  readonly reporter: Reporter;
  /** How long the replicas of a node may take to confirm a grant, in milliseconds; 0: no confirmation. */
  readonly confirmMs: number;
}

const ignore = (): void => undefined;

/**
 * Locks in a quorum of independent masters: held when a majority granted them (the Redlock algorithm, Redis docs,
 * "Distributed Locks with Redis"). It adds fencing tokens that rise over majorities, and restores holds on nodes that have
 * lost them (docs/adr/007-a-quorum-of-stores.md).
 */
export class QuorumLockStore implements LockStore {
  readonly #clock: Clock;
  readonly #nodes: readonly QuorumNode[];
  readonly #acquirer: QuorumAcquirer;
  readonly history: QuorumHistory;
  #wakeUps: QuorumWakeUps | null = null;

  /** `stores`: one per master, all with the same client id. */
  constructor(
    readonly clientId: string,
    stores: readonly RedisLockStore[],
    { clock, random, reporter, confirmMs }: QuorumOptions,
  ) {
    this.#clock = clock;
    const nodes: QuorumNode[] = [];
    for (const store of stores) nodes.push(new QuorumNode(store, nodes, clock, random, reporter));
    this.#nodes = nodes;
    this.#acquirer = new QuorumAcquirer(this.#nodes, clock, random, confirmMs);
    this.history = new QuorumHistory(this.#nodes, clock);
  }

  checkKey(key: string): void {
    this.#nodes[0]!.store.checkKey(key);
  }

  get keyPrefix(): string {
    return this.#nodes[0]!.store.keyPrefix;
  }

  groups(keys: readonly string[]): readonly (readonly string[])[] {
    return this.#nodes[0]!.store.groups(keys);
  }

  listen(listener: WakeUpListener): void {
    this.#wakeUps = new QuorumWakeUps(this.#clock, this.#nodes, listener);
    for (const node of this.#nodes) this.#wakeUps.listenTo(node);
  }

  open(): void {
    for (const node of this.#nodes) {
      node.store.open();
      // A wrong configuration is reported now, not when a node fails.
      if (node.isUnidentified) node.identify().catch(ignore);
    }
  }

  async close(): Promise<void> {
    this.#wakeUps?.close();
    await Promise.all(this.#nodes.map((node) => node.close()));
  }

  acquire(request: AcquireRequest, timeoutMs: number, onLate: (reply: AcquireReply) => void): Promise<AcquireReply> {
    return this.#acquirer.acquire(request, timeoutMs, onLate);
  }

  withdraw(attempt: string): boolean {
    // Withdraws it from all nodes: `every` alone would stop at the first node to which it was sent.
    return this.#nodes.map(({ store }) => store.withdraw(attempt)).every(Boolean);
  }

  renew(requests: readonly RenewRequest[]): Promise<readonly RenewReply[]> {
    return Promise.all(requests.map((request) => this.#renew(request)));
  }

  /** Renews a hold on a majority, and restores it on nodes that have lost it. */
  async #renew(request: RenewRequest): Promise<RenewReply> {
    const lostOn: QuorumNode[] = [];
    let merged: RenewReply | undefined;
    /** Also for a late report that a node has lost the hold. Another process may have adopted the hold since. */
    const restore = (): void => {
      const isLeased = request.leaseMs > 0 && !request.hold?.isOver;
      if (merged?.outcome === 'renewed' && isLeased) this.#acquirer.restore(lostOn.splice(0), request);
    };
    const votes = await this.#gather<RenewReply>({
      ask: async (node) => {
        const reply = (await node.askAbout(request.attempt, (store) => store.renew([request])))[0]!;
        if (reply.outcome !== 'lost' || reply.revoked) return reply;
        lostOn.push(node);
        restore();
        return reply;
      },
      timeoutMs: request.timeoutMs,
      isDecided: (cast) => mergeRenewals(this.#nodes, cast).outcome !== 'unknown',
    });
    merged = mergeRenewals(this.#nodes, votes);
    restore();
    return merged;
  }

  async release(request: ReleaseRequest, timeoutMs: number): Promise<ReleaseReply> {
    const votes = await this.#gather<ReleaseReply>({
      ask: (node) => node.release(request, timeoutMs),
      timeoutMs,
      isDecided: (cast) => mergeReleases(this.#nodes, cast) !== undefined,
    });
    const reply = mergeReleases(this.#nodes, votes);
    if (reply) return reply;
    throw tooFew(request.key, this.#nodes, votes, 'Too few masters confirmed the release');
  }

  async adopt(request: AdoptRequest, timeoutMs: number): Promise<AdoptReply> {
    const { key, from, attempt, leaseMs } = request;
    let outcome: AdoptReply['outcome'] | undefined;
    // On a node that answers otherwise than the majority, a hold of the attempt that has ended would block others, and no other call
    // releases it.
    const endOther = ({ node, value }: Vote<AdoptReply>): void => {
      if (!outcome || value?.outcome === outcome) return;
      const ended = outcome === 'adopted' ? from : attempt;
      node.releaseLater({ key, attempt: ended, leaseMs, holdAtLeastMs: 0, unanswered: true }, timeoutMs);
    };
    const votes = await this.#gather<AdoptReply>({
      ask: (node) => node.ask((store) => store.adopt(request, timeoutMs)),
      timeoutMs,
      isDecided: (cast) => mergeAdoptions(this.#nodes, cast) !== undefined,
      onLate: endOther,
    });
    const reply = mergeAdoptions(this.#nodes, votes);
    if (!reply) throw tooFew(key, this.#nodes, votes, 'Too few masters confirmed the adoption');
    outcome = reply.outcome;
    for (const vote of votes) endOther(vote);
    return reply;
  }

  async forceRelease(key: string, upToToken?: number): Promise<boolean> {
    return (await this.#answers(key, (store) => store.forceRelease(key, upToToken))).some(Boolean);
  }

  async inspect(key: string): Promise<LockState> {
    const states = await this.#answers(key, (store) => store.inspect(key));
    return mergeStates(key, this.#nodes, states);
  }

  async lastRun(key: string, job?: string): Promise<LastRun | null> {
    return mergeRuns(this.#nodes, await this.#answers(key, (store) => store.runs(key)), job);
  }

  async runs(key: string): Promise<readonly LastRun[]> {
    const reports = await this.#answers(key, (store) => store.runs(key));
    const jobs = new Set(reports.flat().map(({ job }) => job));
    return [...jobs].map((job) => mergeRuns(this.#nodes, reports, job)!);
  }

  list(options: ListOptions): AsyncIterable<LockState> {
    return listOf(this, options);
  }

  jobs(options: ListOptions): AsyncIterable<JobOfKey | UnreadableKey> {
    return jobsOf(this, options);
  }

  /** As long as a majority answers, each lock that a majority holds is on one of the answering nodes. */
  async *scan(prefix: string, contains?: string): AsyncGenerator<string> {
    const seen = new Set<string>();
    const votes: Vote<undefined>[] = [];
    for (const node of this.#nodes) {
      try {
        for await (const key of await node.ask(async (store) => store.scan(prefix, contains))) {
          if (!seen.has(key)) yield key;
          seen.add(key);
        }
        votes.push({ node, value: undefined });
      } catch (error) {
        votes.push({ node, error });
      }
    }
    checkAnswered(LISTING, this.#nodes, votes);
  }

  /** Returns the answers of at least a majority. Waits for unreachable nodes only if they are needed for a majority. @throws LockStoreError */
  async #answers<T>(key: string, ask: (store: RedisLockStore) => Promise<T>): Promise<readonly T[]> {
    const votes = await this.#gather({
      ask: (node) => node.askPatiently(ask),
      timeoutMs: QUORUM_READ_TIMEOUT_MS,
      isDecided: (cast) => valuesOf(cast).length >= majorityOf(this.#nodes) && haveAnswered(this.#nodes, cast),
    });
    checkAnswered(key, this.#nodes, votes);
    return valuesOf(votes);
  }

  #gather<T>(ballot: Omit<Ballot<T>, 'nodes'>): Promise<readonly Vote<T>[]> {
    return gather(this.#clock, { nodes: this.#nodes, ...ballot });
  }
}
