import { type Clock } from '../../core/clock.js';
import { type AcquireReply, type AcquireRequest, type RenewRequest } from '../../core/lock-store.js';
import { AcquireRound, type NodeGrant } from './acquire-round.js';
import { type QuorumNode } from './quorum-node.js';
import { type Vote, gather, majorityOf } from './votes.js';

/** How long the nodes are waited for: little compared to the lease, which runs from the first command on. */
const voteTimeoutMs = (leaseMs: number, timeoutMs: number): number =>
  Math.min(Math.max(leaseMs / 50, 50), 500, timeoutMs);

type OnLate = (reply: AcquireReply) => void;

/** Acquires on a majority of the nodes, or gives back what it got. */
export class QuorumAcquirer {
  /** The last round of each attempt that has votes open. */
  readonly #rounds = new Map<string, AcquireRequest>();

  constructor(
    private readonly nodes: readonly QuorumNode[],
    private readonly clock: Clock,
  ) {}

  async acquire(request: AcquireRequest, timeoutMs: number, onLate: OnLate): Promise<AcquireReply> {
    const round = await this.#vote(request, timeoutMs, onLate);
    if (round.isWon && (await this.#writeBack(request, round, timeoutMs))) return round.granted();
    for (const node of round.toGiveBack()) this.#giveBackTo(node, request, timeoutMs);
    return round.notWon();
  }

  /**
   * Nodes that came back empty get a hold again that a majority has just renewed; never to make up a majority. Those that
   * do not are asked at the next renewal.
   */
  lockAgain(nodes: readonly QuorumNode[], request: RenewRequest): void {
    const { key, attempt, owner, mode, leaseMs, holder, fencingToken, timeoutMs } = request;
    const wish = { attempt, owner, mode, leaseMs, holder, waiterLeaseMs: 0, fair: false, limit: 0 };
    const acquire: AcquireRequest = { ...wish, keys: [key] };
    for (const node of nodes) {
      const locked = node.vote(this.nodes, (store) => store.acquire(acquire, timeoutMs, () => undefined));
      const written = locked.then((reply) => {
        if (reply.outcome !== 'granted') return false;
        return this.#writeBackTo({ node, reply }, acquire, [fencingToken], timeoutMs);
      });
      written.catch(() => undefined);
    }
  }

  /** All nodes are asked at once. A vote that comes late is for the next round of the attempt; else it is given back. */
  async #vote(request: AcquireRequest, timeoutMs: number, onLate: OnLate): Promise<AcquireRound> {
    const { attempt, leaseMs } = request;
    this.#rounds.set(attempt, request);
    let round: AcquireRound | undefined;
    const takeLate = ({ node, value }: Vote<AcquireReply>): void => {
      if (value?.outcome !== 'granted') return;
      const latest = this.#rounds.get(attempt);
      if (!latest) onLate(value);
      else if (latest !== request) return;
      else if (round?.isWon) void this.#writeBackTo({ node, reply: value }, request, round.tokens, timeoutMs);
      else this.#giveBackTo(node, request, timeoutMs);
    };
    const votes = await gather<AcquireReply>(this.clock, {
      nodes: this.nodes,
      ask: (node) => {
        const late = (value: AcquireReply): void => takeLate({ node, value });
        return node.vote(this.nodes, (store) => store.acquire(request, timeoutMs, late));
      },
      timeoutMs: voteTimeoutMs(leaseMs, timeoutMs),
      isDecided: (cast) => cast.filter(({ value }) => value?.outcome === 'granted').length >= majorityOf(this.nodes),
      onLate: takeLate,
      onEnd: () => {
        if (this.#rounds.get(attempt) === request) this.#rounds.delete(attempt);
      },
    });
    round = new AcquireRound(this.nodes, request, votes);
    return round;
  }

  /**
   * Has a majority remember the greatest token before the work begins: then every later majority has a node that has, and
   * mints a greater one (docs/adr/007).
   */
  async #writeBack(request: AcquireRequest, round: AcquireRound, timeoutMs: number): Promise<boolean> {
    const votes = await gather<boolean>(this.clock, {
      nodes: round.grants.map(({ node }) => node),
      ask: (node) => {
        const grant = round.grants.find((one) => one.node === node)!;
        return this.#writeBackTo(grant, request, round.tokens, timeoutMs);
      },
      timeoutMs: voteTimeoutMs(request.leaseMs, timeoutMs),
      isDecided: (cast) => cast.filter(({ value }) => value).length >= majorityOf(this.nodes),
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

  /** What a node does not hear of ends with its lease. */
  #giveBackTo(node: QuorumNode, { keys, attempt, claim }: AcquireRequest, timeoutMs: number): void {
    for (const key of keys) {
      const release = { key, attempt, minHoldMs: 0, runOutcome: claim && ('void' as const) };
      node.ask((store) => store.release(release, timeoutMs)).catch(() => undefined);
    }
  }
}
