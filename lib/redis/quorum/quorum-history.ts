import { type Clock } from '../../core/clock.js';
import {
  type LockHistoryBatch,
  type LockHistoryEntry,
  type LockHistoryQuery,
  type LockHistoryStore,
  newestFirst,
} from '../../core/history/history-entry.js';
import { QUORUM_READ_TIMEOUT_MS } from '../timing.js';
import { checkAnswered } from './quorum-merge.js';
import { type QuorumNode } from './quorum-node.js';
import { gather } from './votes.js';

/**
 * The history of the locks of a quorum. Each master has all of it, as far as it was there: a minority may be away when it is
 * written, and when it is read.
 */
export class QuorumHistory implements LockHistoryStore {
  /** The nodes that have confirmed the last batch. */
  #confirmed: { readonly batch: string; readonly nodes: Set<QuorumNode> } = { batch: '', nodes: new Set() };

  /** `readAll`: reads from at least a majority. */
  constructor(
    private readonly nodes: readonly QuorumNode[],
    private readonly clock: Clock,
    private readonly readAll: (query: LockHistoryQuery) => Promise<readonly (readonly LockHistoryEntry[])[]>,
  ) {}

  /** A batch that is sent again goes only to nodes that have not confirmed it: copies would displace older entries there. */
  async append(batch: LockHistoryBatch): Promise<void> {
    if (this.#confirmed.batch !== batch.id) this.#confirmed = { batch: batch.id, nodes: new Set() };
    const { nodes: confirmed } = this.#confirmed;
    const ask = async (node: QuorumNode): Promise<true> => {
      if (!confirmed.has(node)) await node.ask((store) => store.history.append(batch));
      confirmed.add(node);
      return true;
    };
    const ballot = { nodes: this.nodes, ask, timeoutMs: QUORUM_READ_TIMEOUT_MS, isDecided: () => false };
    checkAnswered('*', this.nodes, await gather(this.clock, ballot));
  }

  async read(query: LockHistoryQuery): Promise<readonly LockHistoryEntry[]> {
    return newestFirst((await this.readAll(query)).flat(), query.limit);
  }
}
