import { nodesText } from '../../core/acquisition-errors.js';
import { type AcquireReply, type AcquireRequest } from '../../core/lock-store.js';
import { LockConfigurationError, LockStoreError, type NodeAnswer } from '../../core/lock.errors.js';
import { messageOf } from '../../core/reporter.js';
import { type QuorumNode } from './quorum-node.js';
import { type Vote, majorityOf } from './votes.js';

type Granted = Extract<AcquireReply, { outcome: 'granted' }>;
type Busy = Extract<AcquireReply, { outcome: 'busy' }>;
type Refused = Extract<AcquireReply, { outcome: 'refused' }>;

/** A node that granted, and what. */
export interface NodeGrant {
  readonly node: QuorumNode;
  readonly reply: Granted;
}

/** Those who split the votes try again after a random time of up to this many milliseconds. */
const MAX_BACK_OFF_MS = 60;

/** The votes of one round, sorted. */
export class AcquireRound {
  readonly grants: readonly NodeGrant[];
  readonly #busy: readonly Busy[];
  readonly #refused: readonly Refused[];
  readonly #failures: readonly unknown[];

  constructor(
    private readonly nodes: readonly QuorumNode[],
    private readonly request: AcquireRequest,
    private readonly votes: readonly Vote<AcquireReply>[],
  ) {
    const replies = votes.flatMap(({ value }) => (value ? [value] : []));
    this.grants = votes.flatMap(({ node, value }) => (value?.outcome === 'granted' ? [{ node, reply: value }] : []));
    this.#busy = replies.filter((reply) => reply.outcome === 'busy');
    this.#refused = replies.filter((reply) => reply.outcome === 'refused');
    this.#failures = votes.flatMap(({ value, error }) => (value ? [] : [error]));
  }

  get isWon(): boolean {
    return this.grants.length >= majorityOf(this.nodes);
  }

  /** Per key, the greatest token that a node has minted. */
  get tokens(): readonly number[] {
    return this.request.keys.map((_key, i) => Math.max(...this.grants.map(({ reply }) => reply.fencingTokens[i]!)));
  }

  /**
   * Where a round that is not won has left something that is of no use: all that was granted, and then the places in the
   * queues, too, because the next round is of another attempt. A round without any grant goes on waiting in the queues.
   */
  toGiveBack(): readonly QuorumNode[] {
    if (this.#isSplit) return this.nodes;
    if (this.request.waiterLeaseMs > 0) return [];
    return this.nodes.filter((node) => !this.votes.some((vote) => vote.node === node && vote.value));
  }

  /** Some granted it, or will not grant it to this attempt: it is used up. */
  get #isSplit(): boolean {
    return this.grants.length > 0 || this.#refused.length > 0;
  }

  /** The reply to a round that is won, and whose tokens are written back. */
  granted(): AcquireReply {
    const replies = this.grants.map(({ reply }) => reply);
    const remainingMs = Math.min(...replies.map((reply) => reply.remainingMs));
    const serverTimeMs = Math.max(...replies.map((reply) => reply.serverTimeMs));
    const granted = { outcome: 'granted', fencingTokens: this.tokens, remainingMs, serverTimeMs } as const;
    const fires = replies.flatMap(({ fireMs }) => (fireMs === undefined ? [] : [fireMs]));
    return fires.length > 0 ? { ...granted, fireMs: Math.max(...fires) } : granted;
  }

  /**
   * The reply to a round that is not won.
   * @throws LockStoreError when too few nodes answered, with what each said; LockConfigurationError
   */
  notWon(): AcquireReply {
    const misconfigured = this.#failures.find((error) => error instanceof LockConfigurationError);
    if (misconfigured) throw misconfigured;
    const refusal = this.#refusal();
    if (refusal) return refusal;
    const answered = this.votes.length - this.#failures.length;
    if (answered < majorityOf(this.nodes)) throw this.#unavailable(answered);
    return this.#busyReply();
  }

  /** A fire is claimed when a majority says so: one that is claimed on a few nodes may be given up there. */
  #refusal(): Refused | undefined {
    const claimed = this.#refused.filter(({ reason }) => reason === 'claimed');
    if (claimed.length >= majorityOf(this.nodes)) return claimed[0];
    return this.#refused.find(({ reason }) => reason !== 'claimed');
  }

  #busyReply(): AcquireReply {
    const isSplit = this.#isSplit;
    // It is free when a majority of the nodes is, and those that did not answer are not counted on.
    const retries = this.#busy.map(({ retryMs }) => retryMs).sort((a, b) => a - b);
    const lastMs = retries[Math.min(majorityOf(this.nodes), retries.length) - 1] ?? 0;
    return {
      outcome: 'busy',
      retryMs: isSplit ? Math.ceil(Math.random() * MAX_BACK_OFF_MS) : lastMs,
      ahead: 0,
      holder: this.#busy.find(({ holder }) => holder !== undefined)?.holder,
      serverTimeMs: Math.max(0, ...this.#busy.map(({ serverTimeMs }) => serverTimeMs)),
      nodes: this.answers(),
      isSplit,
    };
  }

  #unavailable(answered: number): LockStoreError {
    const key = this.request.keys.join(', ');
    const nodes = this.answers();
    const retryable = this.#failures.some((error) => !(error instanceof LockStoreError) || error.retryable);
    const text = `Only ${answered} of ${this.nodes.length} masters answered for the lock "${key}", and a majority is needed.`;
    return new LockStoreError(text + nodesText(nodes), { key, nodes, retryable, cause: this.#failures[0] });
  }

  /** What each node answered, in the order of the nodes. */
  answers(): readonly NodeAnswer[] {
    return this.nodes.map((node) => {
      const vote = this.votes.find((one) => one.node === node);
      if (!vote?.value) {
        const detail = vote ? messageOf(vote.error).replace(/\.$/, '') : 'not waited for';
        return { node: node.name, answer: 'unreachable', detail };
      }
      const { outcome } = vote.value;
      if (outcome === 'granted') return { node: node.name, answer: outcome, detail: '' };
      if (outcome === 'refused') return { node: node.name, answer: outcome, detail: vote.value.reason };
      const { holder } = vote.value;
      return { node: node.name, answer: outcome, detail: holder ? `held by ${holder}` : '' };
    });
  }
}
