import { type Clock } from '../../core/clock.js';
import {
  type LockHistoryBatch,
  type LockHistoryEntry,
  type LockHistoryQuery,
  newestFirst,
} from '../../core/history/history-entry.js';
import { READING_HISTORY, WRITING_HISTORY } from '../../core/store/subject.js';
import { type PagedHistory } from '../redis-history.js';
import { MAX_HISTORY_READ_MS, OPERATOR_TIMEOUT_MS, QUORUM_READ_TIMEOUT_MS } from '../timing.js';
import { checkAnswered, haveAnswered, valuesOf } from './quorum-merge.js';
import { type QuorumNode } from './quorum-node.js';
import { type Vote, gather, majorityOf, rulesOutMajority } from './votes.js';

/**
 * The history of the locks of a quorum. Each master has all entries from the times when it was reachable: a minority may be away when
 * the history is written, and when it is read.
 */
export class QuorumHistory implements PagedHistory {
  /** The nodes that have confirmed the last batch. */
  #confirmed: { readonly batch: string; readonly nodes: Set<QuorumNode> } = { batch: '', nodes: new Set() };

  constructor(
    private readonly nodes: readonly QuorumNode[],
    private readonly clock: Clock,
  ) {}

  /** A repeated batch goes only to nodes that have not confirmed it: copies would displace older entries there. */
  async append(batch: LockHistoryBatch): Promise<void> {
    if (this.#confirmed.batch !== batch.id) this.#confirmed = { batch: batch.id, nodes: new Set() };
    const { nodes: confirmed } = this.#confirmed;
    const ask = async (node: QuorumNode): Promise<true> => {
      if (!confirmed.has(node)) await node.ask((store) => store.history.append(batch));
      confirmed.add(node);
      return true;
    };
    const ballot = { nodes: this.nodes, ask, timeoutMs: QUORUM_READ_TIMEOUT_MS, isDecided: () => false };
    checkAnswered(WRITING_HISTORY, this.nodes, await gather(this.clock, ballot));
  }

  /** A majority has every confirmed entry. Other nodes get the usual time limit of a read. */
  async read(query: LockHistoryQuery, pageMs = OPERATOR_TIMEOUT_MS): Promise<readonly LockHistoryEntry[]> {
    const { nodes, clock } = this;
    const patientUntil = clock.now() + QUORUM_READ_TIMEOUT_MS;
    const lacksMajority = (votes: readonly Vote<unknown>[]): boolean => valuesOf(votes).length < majorityOf(nodes);
    const isDecided = (votes: readonly Vote<unknown>[]): boolean => {
      if (lacksMajority(votes)) return rulesOutMajority(nodes, votes.length - valuesOf(votes).length);
      return clock.now() >= patientUntil || haveAnswered(nodes, votes);
    };
    const votes = await gather(clock, {
      nodes,
      ask: (node) => node.askPatiently((store) => store.history.read(query, pageMs)),
      timeoutMs: QUORUM_READ_TIMEOUT_MS,
      extra: { ms: Math.max(MAX_HISTORY_READ_MS, pageMs), canWin: lacksMajority },
      isDecided,
    });
    checkAnswered(READING_HISTORY, nodes, votes);
    return newestFirst(valuesOf(votes).flat(), query.limit);
  }
}
