import { type Clock } from '../../core/clock.js';
import { type RenewReply, type RenewRequest } from '../../core/store/lock-store.js';
import { type QuorumAcquirer } from './quorum-acquirer.js';
import { mergeRenewals } from './quorum-merge.js';
import { type QuorumNode } from './quorum-node.js';
import { gather } from './votes.js';

/** Renews holds on a majority of the nodes, and restores them on nodes that have lost them. */
export class QuorumRenewals {
  constructor(
    private readonly nodes: readonly QuorumNode[],
    private readonly acquirer: Pick<QuorumAcquirer, 'restore'>,
    private readonly clock: Clock,
  ) {}

  async renew(request: RenewRequest): Promise<RenewReply> {
    const lostOn: QuorumNode[] = [];
    let merged: RenewReply | undefined;
    /** Also when a node reports late that it has lost the hold. Another process may have adopted it since. */
    const restore = (): void => {
      if (merged?.outcome === 'renewed' && !request.hold?.isOver) this.acquirer.restore(lostOn.splice(0), request);
    };
    const votes = await gather<RenewReply>(this.clock, {
      nodes: this.nodes,
      ask: async (node) => {
        const reply = (await node.askAbout(request.attempt, (store) => store.renew([request])))[0]!;
        if (reply.outcome !== 'lost' || reply.revoked) return reply;
        lostOn.push(node);
        restore();
        return reply;
      },
      timeoutMs: request.timeoutMs,
      isDecided: (cast) => mergeRenewals(this.nodes, cast).outcome !== 'unknown',
    });
    merged = mergeRenewals(this.nodes, votes);
    restore();
    return merged;
  }
}
