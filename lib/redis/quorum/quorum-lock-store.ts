import { type Clock } from '../../core/clock.js';
import {
  type AcquireReply,
  type AcquireRequest,
  type HoldRef,
  type LastRun,
  type LockState,
  type LockStore,
  type LostReply,
  type ReleaseReply,
  type ReleaseRequest,
  type RenewReply,
  type RenewRequest,
  type WakeUpListener,
} from '../../core/store/lock-store.js';
import { type ListOptions, checkListOptions, listLocks } from '../../core/store/lock-state.js';
import { type Reporter } from '../../core/reporter.js';
import { noneOfOurs } from '../scan.js';
import { type RedisLockStore } from '../redis-lock-store.js';
import { QuorumAcquirer } from './quorum-acquirer.js';
import { NodeIdentity } from './node-identity.js';
import { QuorumNode } from './quorum-node.js';
import {
  checkAnswered,
  mergeDowngrades,
  mergeReleases,
  mergeRenewals,
  mergeRuns,
  mergeStates,
  tooFew,
  valuesOf,
} from './quorum-merge.js';
import { QuorumWakeUps } from './quorum-wake-ups.js';
import { type Renewals, RenewalsUnderWay } from './renewals-under-way.js';
import { type Ballot, type Vote, gather, majorityOf } from './votes.js';

/** How long the nodes are waited for by who only looks. */
const OPERATOR_TIMEOUT_MS = 1_000;

/** What a quorum needs besides its nodes. */
export interface QuorumOptions {
  /** Is told of a node that has no vote. */
  readonly reporter: Reporter;
  /** How long the replicas of a node may take to confirm a grant, in milliseconds; 0: none is asked. */
  readonly confirmMs: number;
}

const ignore = (): void => undefined;
const SILENT: QuorumOptions = { reporter: { debug: ignore, warn: ignore, error: ignore }, confirmMs: 0 };

/**
 * Locks in a quorum of independent masters: held when a majority granted them (the Redlock algorithm, Redis docs,
 * "Distributed Locks with Redis"). What it adds is told in docs/adr/007-a-quorum-of-stores.md: a fencing token that rises
 * over majorities, and holds that come back on nodes that had lost them.
 */
export class QuorumLockStore implements LockStore {
  readonly #nodes: readonly QuorumNode[];
  readonly #acquirer: QuorumAcquirer;
  readonly #renewals = new RenewalsUnderWay();
  #wakeUps: QuorumWakeUps | null = null;

  /** `stores`: of each master; all have the same client id. */
  constructor(
    readonly clientId: string,
    stores: readonly RedisLockStore[],
    private readonly clock: Clock,
    { reporter, confirmMs } = SILENT,
  ) {
    const identities: NodeIdentity[] = [];
    for (const store of stores) identities.push(new NodeIdentity(store, identities, clock, reporter));
    this.#nodes = identities.map((identity, i) => new QuorumNode(stores[i]!, identity, clock));
    this.#acquirer = new QuorumAcquirer(this.#nodes, clock, confirmMs);
  }

  checkKey(key: string): void {
    this.#nodes[0]!.store.checkKey(key);
  }

  groups(keys: readonly string[]): readonly (readonly string[])[] {
    return this.#nodes[0]!.store.groups(keys);
  }

  listen(listener: WakeUpListener): void {
    this.#wakeUps = new QuorumWakeUps(this.clock, this.#nodes, listener);
    for (const node of this.#nodes) this.#wakeUps.listenTo(node);
  }

  open(): void {
    for (const node of this.#nodes) {
      node.store.open();
      // What is set up wrongly is told now, and not when a node fails.
      if (node.isStranger) node.meet().catch(ignore);
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
    // Of all nodes, not only up to the first that was asked.
    return this.#nodes.map(({ store }) => store.withdraw(attempt)).every(Boolean);
  }

  renew(requests: readonly RenewRequest[]): Promise<readonly RenewReply[]> {
    const renewOne = (request: RenewRequest): Promise<RenewReply> =>
      this.#renewals.during(request.attempt, (renewals) => this.#renewOne(request, renewals));
    return Promise.all(requests.map(renewOne));
  }

  async #renewOne(request: RenewRequest, renewals: Renewals): Promise<RenewReply> {
    const lost: QuorumNode[] = [];
    let reply: RenewReply | undefined;
    /** Also when a node tells late that it lost it. */
    const lockAgain = (): void => {
      if (reply?.outcome === 'renewed' && !renewals.isReleased) this.#acquirer.lockAgain(lost.splice(0), request);
    };
    const votes = await this.#gather<RenewReply>({
      ask: (node) =>
        this.#renewals.during(request.attempt, async () => {
          const told = (await node.askAbout(request.attempt, (store) => store.renew([request])))[0]!;
          if (told.outcome !== 'lost' || told.revoked) return told;
          lost.push(node);
          lockAgain();
          return told;
        }),
      timeoutMs: request.timeoutMs,
      isDecided: (cast) => mergeRenewals(this.#nodes, cast).outcome !== 'unknown',
    });
    reply = mergeRenewals(this.#nodes, votes);
    lockAgain();
    return reply;
  }

  async release(request: ReleaseRequest, timeoutMs: number): Promise<ReleaseReply> {
    this.#renewals.onRelease(request.attempt);
    const votes = await this.#gather<ReleaseReply>({
      ask: (node) => node.release(request, timeoutMs),
      timeoutMs,
      isDecided: (cast) => mergeReleases(this.#nodes, cast) !== undefined,
    });
    const reply = mergeReleases(this.#nodes, votes);
    if (reply) return reply;
    throw tooFew(request.key, this.#nodes, votes, 'Too few masters confirmed the release');
  }

  async downgrade(hold: HoldRef, timeoutMs: number): Promise<{ readonly outcome: 'downgraded' } | LostReply> {
    const votes = await this.#gather({
      ask: (node) => node.askAbout(hold.attempt, (store) => store.downgrade(hold, timeoutMs)),
      timeoutMs,
      isDecided: (cast) => mergeDowngrades(this.#nodes, cast) !== undefined,
    });
    const reply = mergeDowngrades(this.#nodes, votes);
    if (reply) return reply;
    throw tooFew(hold.key, this.#nodes, votes, 'Too few masters confirmed the downgrade');
  }

  async forceRelease(key: string): Promise<boolean> {
    return (await this.#answers(key, (store) => store.forceRelease(key))).some(Boolean);
  }

  async inspect(key: string): Promise<LockState> {
    const states = await this.#answers(key, (store) => store.inspect(key));
    return mergeStates(key, this.#nodes, states);
  }

  async lastRun(key: string, job?: string): Promise<LastRun | null> {
    return mergeRuns(this.#nodes, await this.#answers(key, (store) => store.runs(key)), job);
  }

  list(options: ListOptions): AsyncIterable<LockState> {
    checkListOptions(options);
    return listLocks(this.#scan(options.prefix), options.limit, (key) => this.inspect(key).catch(noneOfOurs));
  }

  /** Whatever a majority holds is on one of the nodes that answer, as long as these are a majority. */
  async *#scan(prefix: string): AsyncGenerator<string> {
    const seen = new Set<string>();
    const votes: Vote<true>[] = [];
    for (const node of this.#nodes) {
      try {
        for await (const key of await node.ask(async (store) => store.scan(prefix))) {
          if (!seen.has(key)) yield key;
          seen.add(key);
        }
        votes.push({ node, value: true });
      } catch (error) {
        votes.push({ node, error });
      }
    }
    checkAnswered(`${prefix}*`, this.#nodes, votes);
  }

  /** Of a majority at least. Nodes that are away are waited for only if it takes them. @throws LockStoreError */
  async #answers<T>(key: string, ask: (store: RedisLockStore) => Promise<T>): Promise<readonly T[]> {
    const votes = await this.#gather({
      ask: (node) => node.askPatiently(ask),
      timeoutMs: OPERATOR_TIMEOUT_MS,
      isDecided: (cast) =>
        valuesOf(cast).length >= majorityOf(this.#nodes) &&
        this.#nodes.every((node) => node.isAway || cast.some((vote) => vote.node === node)),
    });
    checkAnswered(key, this.#nodes, votes);
    return valuesOf(votes);
  }

  #gather<T>(ballot: Partial<Ballot<T>> & Pick<Ballot<T>, 'ask' | 'timeoutMs'>): Promise<readonly Vote<T>[]> {
    return gather(this.clock, { nodes: this.#nodes, isDecided: () => false, ...ballot });
  }
}
