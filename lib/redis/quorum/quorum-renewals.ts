import { type Clock } from '../../core/clock.js';
import { type RenewReply, type RenewRequest } from '../../core/store/lock-store.js';
import { type QuorumAcquirer } from './quorum-acquirer.js';
import { mergeRenewals } from './quorum-merge.js';
import { type QuorumNode } from './quorum-node.js';
import { gather } from './votes.js';

/** The renewals of one attempt. */
interface Renewals {
  /** How many of its requests have no answer yet. */
  underWay: number;
  /** Whether a release of the attempt was sent since they began. */
  isReleased: boolean;
}

/** Renews holds on a majority of the nodes, and restores them on nodes that have lost them. */
export class QuorumRenewals {
  readonly #underWay = new RenewalsUnderWay();

  constructor(
    private readonly nodes: readonly QuorumNode[],
    private readonly acquirer: QuorumAcquirer,
    private readonly clock: Clock,
  ) {}

  renew(request: RenewRequest): Promise<RenewReply> {
    return this.#underWay.during(request.attempt, (renewals) => this.#renew(request, renewals));
  }

  /** A release of the attempt is being sent: a late answer must not restore the hold. */
  onRelease(attempt: string): void {
    this.#underWay.onRelease(attempt);
  }

  async #renew(request: RenewRequest, renewals: Renewals): Promise<RenewReply> {
    const lostOn: QuorumNode[] = [];
    let merged: RenewReply | undefined;
    /** Also when a node reports late that it has lost the hold. */
    const restore = (): void => {
      if (merged?.outcome === 'renewed' && !renewals.isReleased) this.acquirer.restore(lostOn.splice(0), request);
    };
    const renewOn = async (node: QuorumNode): Promise<RenewReply> => {
      const reply = (await node.askAbout(request.attempt, (store) => store.renew([request])))[0]!;
      if (reply.outcome !== 'lost' || reply.revoked) return reply;
      lostOn.push(node);
      restore();
      return reply;
    };
    const votes = await gather<RenewReply>(this.clock, {
      nodes: this.nodes,
      ask: (node) => this.#underWay.during(request.attempt, () => renewOn(node)),
      timeoutMs: request.timeoutMs,
      isDecided: (cast) => mergeRenewals(this.nodes, cast).outcome !== 'unknown',
    });
    merged = mergeRenewals(this.nodes, votes);
    restore();
    return merged;
  }
}

/** Which attempts are being renewed. */
export class RenewalsUnderWay {
  readonly #byAttempt = new Map<string, Renewals>();

  get size(): number {
    return this.#byAttempt.size;
  }

  /** Runs a part of a renewal, which is under way until all of its parts are done. */
  async during<T>(attempt: string, work: (renewals: Renewals) => Promise<T>): Promise<T> {
    const renewals = this.#byAttempt.get(attempt) ?? { underWay: 0, isReleased: false };
    this.#byAttempt.set(attempt, renewals);
    renewals.underWay += 1;
    try {
      return await work(renewals);
    } finally {
      renewals.underWay -= 1;
      if (renewals.underWay === 0) this.#byAttempt.delete(attempt);
    }
  }

  onRelease(attempt: string): void {
    const renewals = this.#byAttempt.get(attempt);
    if (renewals) renewals.isReleased = true;
  }
}
