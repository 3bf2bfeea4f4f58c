import { type Clock } from '../../core/clock.js';
import { type Randomness } from '../../core/randomness.js';
import { releasesOfAttempt } from '../../core/store/attempt-ids.js';
import { type FireClaim, type GrantedFire } from '../../core/store/fires.js';
import { type AcquireReply, type AcquireRequest, type RenewRequest } from '../../core/store/lock-store.js';
import { confirmExtraMs, voteTimeoutMs } from '../timing.js';
import { AcquireRound, type NodeGrant } from './acquire-round.js';
import { checkAnswered, valuesOf } from './quorum-merge.js';
import { type QuorumNode, readTime } from './quorum-node.js';
import { type Ballot, type Vote, gather, rulesOutMajority, majorityOf } from './votes.js';

const isGranted = ({ value }: Vote<AcquireReply>): boolean => value?.outcome === 'granted';

const isClaimed = (reply: AcquireReply): boolean => reply.outcome === 'refused' && reply.reason === 'claimed';

/**
 * A re-entry may use any majority, and must find the token of its owner there. For a fire, a single node may have the record of the
 * run.
 */
const needsAllNodes = ({ owner, claim }: AcquireRequest): boolean => owner !== undefined || claim?.kind === 'at';

type OnLate = (reply: AcquireReply) => void;

/** The state that a late vote of a round needs. */
interface RoundState {
  readonly request: AcquireRequest;
  readonly timeoutMs: number;
  readonly onLate: OnLate;
  /** Whether its attempt is over, so that a grant from now on is given back. */
  isOver: boolean;
}

/** Acquires on a majority of the nodes, or gives back what was granted. */
export class QuorumAcquirer {
  /** The fire of a claim of a slot: decided once, however often it is requested. */
  readonly #fires = new WeakMap<FireClaim, FireClaim>();

  constructor(
    private readonly nodes: readonly QuorumNode[],
    private readonly clock: Clock,
    private readonly random: Randomness,
    private readonly confirmMs: number,
  ) {}

  /** `onLate` receives grants that come after the outcome; the caller has the outcome of the attempt. */
  async acquire(given: AcquireRequest, timeoutMs: number, onLate: OnLate): Promise<AcquireReply> {
    await this.#identifyNodes(given);
    const request = { ...given, claim: await this.#decideFire(given) };
    const state: RoundState = { request, timeoutMs, onLate, isOver: false };
    const round = await this.#vote(state);
    if (round.isWon && (await this.#writeBack(request, round, timeoutMs))) return round.granted();
    state.isOver = round.isSpent;
    for (const node of round.toGiveBack()) this.#giveBackTo(node, request, timeoutMs);
    return round.notWon(this.random);
  }

  /**
   * Refuses a quorum with a wrong configuration as soon as it is detected: it would seem to work until a node fails.
   * @throws LockConfigurationError
   */
  async #identifyNodes({ leaseMs }: AcquireRequest): Promise<void> {
    const nodes = this.nodes.filter(({ isUnidentified }) => isUnidentified);
    if (nodes.length === 0) return;
    const ask = (node: QuorumNode) => node.identify();
    await gather(this.clock, { nodes, ask, timeoutMs: voteTimeoutMs(leaseMs), isDecided: () => false });
    const error = nodes.map((node) => node.configurationError).find((one) => one !== null);
    if (error) throw error;
  }

  /** The clocks of the nodes differ, and near the border of a slot they would grant different slots: the median decides. */
  async #decideFire({ keys, claim, leaseMs }: AcquireRequest): Promise<FireClaim | undefined> {
    if (claim?.kind !== 'slot') return claim;
    const decided = this.#fires.get(claim);
    if (decided) return decided;
    const timeoutMs = voteTimeoutMs(leaseMs);
    // Read before the nodes are asked: their times count from this moment, however long the last answer takes.
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
   * Restores a hold that a majority has just renewed on nodes that have lost it; never to make up a majority. A node that
   * does not grant it is asked again at the next renewal.
   */
  restore(nodes: readonly QuorumNode[], request: RenewRequest): void {
    const { key, attempt, owner, mode, leaseMs, holder, fencingToken, fire, timeoutMs } = request;
    const hold = { attempt, owner, mode, leaseMs, holder, keys: [key], claim: this.#claimOf(fire) };
    const acquire: AcquireRequest = { ...hold, waiterLeaseMs: 0, fair: false, permits: 0 };
    for (const node of nodes) {
      // Never given back: a late release would end a hold that a later renewal counts.
      const take = (reply: AcquireReply): void => {
        if (reply.outcome === 'granted') void this.#writeBackTo({ node, reply }, acquire, [fencingToken], timeoutMs);
        // The node has the fire, with another run: only the hold is missing.
        if (isClaimed(reply) && fire) this.restore([node], { ...request, fire: undefined });
      };
      node.acquire(acquire, timeoutMs, take).then(take, () => undefined);
    }
  }

  /** The claim by which a node that has lost a hold learns its fire, or keeps the open run of a fire that it has. */
  #claimOf(fire: GrantedFire | undefined): FireClaim | undefined {
    if (fire?.ms === undefined) return undefined;
    const { job, ms, rememberMs } = fire;
    return { job, kind: 'at', ms, calledAt: this.clock.now(), rememberMs, rerunOnLoss: true, hasBegun: true };
  }

  async #vote(state: RoundState): Promise<AcquireRound> {
    const { request, timeoutMs, onLate } = state;
    let round: AcquireRound | undefined;
    const takeLate = ({ node, value }: Vote<AcquireReply>): void => {
      if (value?.outcome !== 'granted') return;
      if (state.isOver) this.#giveBackTo(node, request, timeoutMs);
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
      isDecided: (cast) => !needsAllNodes(request) && cast.filter(isGranted).length >= majorityOf(this.nodes),
      onLate: takeLate,
    });
    round = new AcquireRound(this.nodes, request, votes);
    return round;
  }

  #extraFor({ leaseMs }: AcquireRequest): Ballot<AcquireReply>['extra'] {
    if (this.confirmMs === 0) return undefined;
    const canWin = (cast: readonly Vote<AcquireReply>[]) =>
      !rulesOutMajority(this.nodes, cast.filter((vote) => !isGranted(vote)).length);
    return { ms: confirmExtraMs(leaseMs, this.confirmMs), canWin };
  }

  /**
   * Stores the token on a majority before the work begins: then every later majority contains a node with this token, which
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

  /** Never rejects; false when the node has lost a hold, or did not answer. */
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
