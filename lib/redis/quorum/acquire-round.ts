import { nodesText } from '../../core/error-texts.js';
import { type AcquireReply, type AcquireRequest } from '../../core/store/lock-store.js';
import { LockConfigurationError, LockStoreError, mayBeCarriedOut, type NodeAnswer } from '../../core/lock.errors.js';
import { reasonOf } from '../../core/reporter.js';
import { type Randomness } from '../../core/randomness.js';
import { MAX_SPLIT_BACKOFF_MS } from '../timing.js';
import { mayAnswerOnRetry } from './quorum-merge.js';
import { type QuorumNode } from './quorum-node.js';
import { type Vote, countOf, rulesOutMajority, majorityOf } from './votes.js';

type Granted = Extract<AcquireReply, { outcome: 'granted' }>;
type Busy = Extract<AcquireReply, { outcome: 'busy' }>;
type Refused = Extract<AcquireReply, { outcome: 'refused' }>;

/** Whether a node refuses a claim because it has the outcome of the run. */
const knowsOutcome = ({ reason, claimedBy }: Refused): boolean => reason === 'claimed' && claimedBy === undefined;

/** A node that granted the lock, and its reply. */
export interface NodeGrant {
  readonly node: QuorumNode;
  readonly reply: Granted;
}

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
    this.#failures = votes.flatMap(({ value, error }) => {
      // A grant that the replicas of a node did not confirm does not count as an answer.
      if (value?.outcome === 'given-back') return [value.cause];
      return value ? [] : [error];
    });
  }

  get isWon(): boolean {
    return this.grants.length >= majorityOf(this.nodes) && !this.#wasRun;
  }

  /** Whether a node has the outcome of the run of this fire. For a distance, this would depend on its clock, which may be wrong. */
  get #wasRun(): boolean {
    return this.request.claim?.kind === 'at' && this.#refused.some(knowsOutcome);
  }

  /**
   * Per key, the token that a majority agrees on: its owner holds the lock with this token, and a node that had lost the hold
   * has minted another one. Otherwise the greatest that a node has minted.
   */
  get tokens(): readonly number[] {
    return this.request.keys.map((_key, i) => {
      const minted = this.grants.map(({ reply }) => reply.fencingTokens[i]!);
      const agreed = minted.find((token) => countOf(minted, token) >= majorityOf(this.nodes));
      return agreed ?? Math.max(...minted);
    });
  }

  /**
   * The nodes on which a round that is not won has to be given back: where it was granted, or may have been granted without an
   * answer. Its places in the queues stay while it waits for a known holder. They are given back when the next round, of
   * another attempt, follows at once, or when the refusal of some nodes ends the call.
   */
  toGiveBack(): readonly QuorumNode[] {
    const isRefused = this.#refused.some(({ reason }) => reason === 'released');
    if (isRefused || (this.#isTouched && !this.#isHeld)) return this.nodes;
    const hasPlaces = this.request.waiterLeaseMs > 0;
    const isOver = !hasPlaces || this.#refusal() !== undefined;
    return this.nodes.filter((node) => {
      const vote = this.votes.find((one) => one.node === node);
      if (vote?.value?.outcome === 'busy') return hasPlaces && isOver;
      if (vote?.value?.outcome === 'given-back') return vote.value.unanswered === true;
      if (vote?.value) return vote.value.outcome === 'granted';
      // A node whose answer was not awaited may also have granted it.
      return isOver && mayBeCarriedOut(vote?.error);
    });
  }

  /**
   * Whether the attempt is over if the round is not won: part of it was given back, or is given back now. A release may arrive
   * late, and would end what a later round of the same attempt counts.
   */
  get isSpent(): boolean {
    return this.#isGivenBack || this.toGiveBack().length > 0;
  }

  /** Whether a node has granted it, or has given it back. */
  get #isTouched(): boolean {
    return this.#isGivenBack || this.grants.length > 0 || this.#refused.some(({ reason }) => reason === 'released');
  }

  /** Whether a node has given back its own grant. */
  get #isGivenBack(): boolean {
    return this.votes.some(({ value }) => value?.outcome === 'given-back');
  }

  /** Whether a majority names one owner, or readers; other nodes may not have them. */
  get #isHeld(): boolean {
    return highestCount(this.#busy.map(({ owner }) => owner)) >= majorityOf(this.nodes);
  }

  /** The reply of a won round, whose tokens are written back. */
  granted(): AcquireReply {
    const replies = this.grants.map(({ reply }) => reply);
    const remainingMs = Math.min(...replies.map((reply) => reply.remainingMs));
    const serverTimeMs = Math.max(...replies.map((reply) => reply.serverTimeMs));
    const granted = { outcome: 'granted', fencingTokens: this.tokens, remainingMs, serverTimeMs } as const;
    const fires = replies.flatMap(({ fireMs }) => (fireMs === undefined ? [] : [fireMs]));
    return fires.length > 0 ? { ...granted, fireMs: Math.max(...fires) } : granted;
  }

  /**
   * The reply of a round that is not won.
   * @throws LockStoreError when too few nodes answered, with the answer of each; LockConfigurationError
   */
  notWon(random: Randomness): AcquireReply {
    const misconfigured = this.#failures.find((error) => error instanceof LockConfigurationError);
    if (misconfigured) throw misconfigured;
    const refusal = this.#refusal();
    if (refusal) return refusal;
    const answered = this.votes.length - this.#failures.length;
    if (answered >= majorityOf(this.nodes)) return this.#busyReply(random);
    const cause = this.#unavailable(answered);
    if (this.isSpent) return { outcome: 'given-back', cause };
    throw cause;
  }

  /**
   * `released` counts from any node; `upgrade` if no majority is left without it, because the rest of a read hold may remain on
   * a few nodes; `claimed` from a node with the outcome of the run, or by one attempt on a majority, because other claims
   * may be given back.
   */
  #refusal(): Refused | undefined {
    const of = (reason: Refused['reason']) => this.#refused.filter((reply) => reply.reason === reason);
    const [released] = of('released');
    if (released) return released;
    const upgrades = of('upgrade');
    if (rulesOutMajority(this.nodes, upgrades.length)) return upgrades[0];
    const claimed = of('claimed');
    const run = claimed.find(knowsOutcome);
    if (run) return run;
    return highestCount(claimed.map(({ claimedBy }) => claimedBy)) >= majorityOf(this.nodes) ? claimed[0] : undefined;
  }

  #busyReply(random: Randomness): AcquireReply {
    const isClaimed = this.#refused.some(({ reason }) => reason === 'claimed');
    const isSplit = (this.#isTouched || isClaimed) && !this.#isHeld;
    // The lock is free when it is free on a majority of the nodes; nodes without an answer do not count.
    const retries = this.#busy.map(({ retryMs }) => retryMs).sort((a, b) => a - b);
    const lastMs = retries[Math.min(majorityOf(this.nodes), retries.length) - 1] ?? 0;
    return {
      outcome: 'busy',
      retryMs: isSplit ? 1 + Math.floor(random.fraction() * MAX_SPLIT_BACKOFF_MS) : lastMs,
      ahead: 0,
      holder: this.#busy.find(({ holder }) => holder !== undefined)?.holder,
      serverTimeMs: Math.max(0, ...this.#busy.map(({ serverTimeMs }) => serverTimeMs)),
      nodes: this.answers(),
      isSpent: this.isSpent,
      isSplit,
    };
  }

  #unavailable(answered: number): LockStoreError {
    const key = this.request.keys.join(', ');
    const nodes = this.answers();
    const retryable = mayAnswerOnRetry(this.nodes, this.#failures);
    const text = `Only ${answered} of ${this.nodes.length} masters answered for the lock "${key}", and a majority is needed.`;
    const wasSent = this.votes.some(({ value, error }) => value !== undefined || mayBeCarriedOut(error));
    return new LockStoreError(text + nodesText(nodes), { key, nodes, retryable, wasSent, cause: this.#failures[0] });
  }

  /** The answer of each node, in the order of the nodes. */
  answers(): readonly NodeAnswer[] {
    return this.nodes.map((node) => {
      const vote = this.votes.find((one) => one.node === node);
      return { node: node.name, ...answerOf(vote) };
    });
  }
}

function answerOf(vote: Vote<AcquireReply> | undefined): Omit<NodeAnswer, 'node'> {
  const reply = vote?.value;
  if (reply?.outcome === 'granted') return { answer: 'granted', detail: '' };
  if (reply?.outcome === 'refused') return { answer: 'refused', detail: reply.reason };
  if (reply?.outcome === 'busy') return { answer: 'busy', detail: reply.holder ? `held by ${reply.holder}` : '' };
  const error = reply?.outcome === 'given-back' ? reply.cause : vote?.error;
  return { answer: 'unreachable', detail: error ? reasonOf(error) : 'not waited for' };
}

/** The number of times that the most common value occurs. */
const highestCount = (values: readonly unknown[]): number =>
  Math.max(0, ...values.map((value) => countOf(values, value)));
