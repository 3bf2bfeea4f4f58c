import { type Clock } from '../../core/clock.js';
import { releasesOfAttempt } from '../../core/store/attempt-ids.js';
import {
  type AcquireReply,
  type AcquireRequest,
  type FireClaim,
  type RenewRequest,
} from '../../core/store/lock-store.js';
import { AcquireRound, type NodeGrant } from './acquire-round.js';
import { checkAnswered, valuesOf } from './quorum-merge.js';
import { readTime } from './node-server.js';
import { type QuorumNode } from './quorum-node.js';
import { type Ballot, type Vote, gather, isBeyond, majorityOf } from './votes.js';

/** How long the nodes are waited for: little compared to the lease, which runs from the first command on. */
const voteTimeoutMs = (leaseMs: number, timeoutMs = Infinity): number =>
  Math.min(Math.max(leaseMs / 20, 100), 500, timeoutMs);

/** How much longer where replicas confirm the grants: those that confirm another lock may have to be waited for before. */
const extraMs = (leaseMs: number, confirmMs: number): number =>
  Math.max(Math.min(2 * confirmMs, leaseMs - voteTimeoutMs(leaseMs)), 0);

const isGranted = ({ value }: Vote<AcquireReply>): boolean => value?.outcome === 'granted';

type OnLate = (reply: AcquireReply) => void;

/** One round, as those see it whose votes come late. */
interface Asking {
  readonly request: AcquireRequest;
  readonly timeoutMs: number;
  readonly onLate: OnLate;
  /** Its attempt is over, and what is granted to it from now on is given back. */
  isOver: boolean;
}

/** Acquires on a majority of the nodes, or gives back what it got. */
export class QuorumAcquirer {
  /** Which fire a claim of a slot is for: decided once, however often it is asked for. */
  readonly #fires = new WeakMap<FireClaim, FireClaim>();

  constructor(
    private readonly nodes: readonly QuorumNode[],
    private readonly clock: Clock,
    private readonly confirmMs: number,
  ) {}

  /** `onLate` hears grants that come after the outcome; the caller knows what became of the attempt. */
  async acquire(asked: AcquireRequest, timeoutMs: number, onLate: OnLate): Promise<AcquireReply> {
    await this.#meetStrangers(asked);
    const request = { ...asked, claim: await this.#decideFire(asked) };
    const asking: Asking = { request, timeoutMs, onLate, isOver: false };
    const round = await this.#vote(asking);
    if (round.isWon && (await this.#writeBack(request, round, timeoutMs))) return round.granted();
    asking.isOver = round.isSpent;
    for (const node of round.toGiveBack()) this.#giveBackTo(node, request, timeoutMs);
    return round.notWon();
  }

  /**
   * Refuses a quorum that is set up wrongly as soon as that can be seen: it would work until a node fails.
   * @throws LockConfigurationError
   */
  async #meetStrangers({ leaseMs }: AcquireRequest): Promise<void> {
    const nodes = this.nodes.filter(({ isStranger }) => isStranger);
    if (nodes.length === 0) return;
    const ask = (node: QuorumNode) => node.meet();
    await gather(this.clock, { nodes, ask, timeoutMs: voteTimeoutMs(leaseMs), isDecided: () => false });
    const misfit = nodes.map((node) => node.misfit).find((error) => error !== null);
    if (misfit) throw misfit;
  }

  /** The clocks of the nodes differ, and near a border they would grant different slots: the one in the middle counts. */
  async #decideFire({ keys, claim, leaseMs }: AcquireRequest): Promise<FireClaim | undefined> {
    if (claim?.kind !== 'slot') return claim;
    const decided = this.#fires.get(claim);
    if (decided) return decided;
    const timeoutMs = voteTimeoutMs(leaseMs);
    // Before the nodes are asked: their times are of then, however long the last answer takes.
    const ageMs = this.clock.now() - claim.calledAt;
    const ask = (node: QuorumNode) => node.ask((store) => readTime(store));
    const votes = await gather<number>(this.clock, { nodes: this.nodes, ask, timeoutMs, isDecided: () => false });
    checkAnswered(keys[0]!, this.nodes, votes);
    const times = valuesOf(votes).sort((a, b) => a - b);
    const calledMs = times[Math.floor(times.length / 2)]! - ageMs;
    const fire: FireClaim = { ...claim, kind: 'at', ms: Math.floor(calledMs / claim.ms) * claim.ms };
    this.#fires.set(claim, fire);
    return fire;
  }

  /**
   * Nodes that came back empty get a hold again that a majority has just renewed; never to make up a majority. Those that
   * do not are asked at the next renewal.
   */
  lockAgain(nodes: readonly QuorumNode[], request: RenewRequest): void {
    const { key, attempt, owner, mode, leaseMs, holder, fencingToken, timeoutMs } = request;
    const wish = { attempt, owner, mode, leaseMs, holder, waiterLeaseMs: 0, fair: false, permits: 0 };
    const acquire: AcquireRequest = { ...wish, keys: [key] };
    for (const node of nodes) {
      // Never given back: a release that is late would take away what a later renewal counts.
      const take = (reply: AcquireReply): void => {
        if (reply.outcome === 'granted') void this.#writeBackTo({ node, reply }, acquire, [fencingToken], timeoutMs);
      };
      node.acquire(acquire, timeoutMs, take).then(take, () => undefined);
    }
  }

  async #vote(asking: Asking): Promise<AcquireRound> {
    const { request, timeoutMs, onLate } = asking;
    const { owner } = request;
    let round: AcquireRound | undefined;
    const takeLate = ({ node, value }: Vote<AcquireReply>): void => {
      if (value?.outcome !== 'granted') return;
      if (asking.isOver) this.#giveBackTo(node, request, timeoutMs);
      else if (round?.isWon) void this.#writeBackTo({ node, reply: value }, request, round.tokens, timeoutMs);
      onLate(value);
    };
    const votes = await gather<AcquireReply>(this.clock, {
      nodes: this.nodes,
      ask: (node) => {
        const late = (value: AcquireReply): void => takeLate({ node, value });
        return node.acquire(request, timeoutMs, late);
      },
      timeoutMs: voteTimeoutMs(request.leaseMs, timeoutMs),
      extra: this.#extraFor(request),
      // Who re-enters may come by any majority, and has to find one token: with an owner all nodes are waited for.
      isDecided: (cast) => owner === undefined && cast.filter(isGranted).length >= majorityOf(this.nodes),
      onLate: takeLate,
    });
    round = new AcquireRound(this.nodes, request, votes);
    return round;
  }

  #extraFor({ leaseMs }: AcquireRequest): Ballot<AcquireReply>['extra'] {
    if (this.confirmMs === 0) return undefined;
    const isHopeful = (cast: readonly Vote<AcquireReply>[]) =>
      !isBeyond(this.nodes, cast.filter((vote) => !isGranted(vote)).length);
    return { ms: extraMs(leaseMs, this.confirmMs), isHopeful };
  }

  /**
   * Has a majority remember the token before the work begins: then every later majority has a node that has, and
   * mints a greater one (docs/adr/007).
   */
  async #writeBack(request: AcquireRequest, round: AcquireRound, timeoutMs: number): Promise<boolean> {
    const { owner } = request;
    const { tokens } = round;
    const votes = await gather<boolean>(this.clock, {
      nodes: round.grants.map(({ node }) => node),
      ask: (node) => {
        const grant = round.grants.find((one) => one.node === node)!;
        return this.#writeBackTo(grant, request, tokens, timeoutMs);
      },
      timeoutMs: voteTimeoutMs(request.leaseMs, timeoutMs),
      isDecided: (cast) => owner === undefined && cast.filter(({ value }) => value).length >= majorityOf(this.nodes),
    });
    return votes.filter(({ value }) => value).length >= majorityOf(this.nodes);
  }

  /** Never rejects; false when the node has lost a hold, or gave no answer. */
  async #writeBackTo(
    { node, reply }: NodeGrant,
    { keys, attempt }: AcquireRequest,
    tokens: readonly number[],
    timeoutMs: number,
  ): Promise<boolean> {
    const write = async (key: string, i: number): Promise<boolean> => {
      const fencingToken = reply.fencingTokens[i]!;
      if (fencingToken === tokens[i]) return true;
      return node.ask((store) => store.writeBack({ key, attempt, fencingToken }, tokens[i]!, timeoutMs));
    };
    const done = await Promise.all(keys.map(write)).catch(() => [false]);
    return done.every(Boolean);
  }

  #giveBackTo(node: QuorumNode, request: AcquireRequest, timeoutMs: number): void {
    for (const release of releasesOfAttempt(request)) node.release(release, timeoutMs).catch(() => undefined);
  }
}
