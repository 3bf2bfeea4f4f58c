import { nodesText } from '../../core/acquisition-errors.js';
import {
  type LastRun,
  type LockHolder,
  type LockState,
  type LostReply,
  type ReleaseReply,
  type RenewReply,
} from '../../core/lock-store.js';
import { LockStoreError } from '../../core/lock.errors.js';
import { messageOf } from '../../core/reporter.js';
import { type QuorumNode } from './quorum-node.js';
import { type Vote, majorityOf } from './votes.js';

/** The values among the votes. */
export const valuesOf = <T>(votes: readonly Vote<T>[]): T[] =>
  votes.flatMap((vote) => (vote.error === undefined ? [vote.value as T] : []));

/** @throws LockStoreError that tells what each node said, unless a majority answered */
export function checkAnswered<T>(key: string, nodes: readonly QuorumNode[], votes: readonly Vote<T>[]): void {
  const values = valuesOf(votes);
  if (values.length >= majorityOf(nodes)) return;
  throw tooFew(key, nodes, votes, `Only ${values.length} of ${nodes.length} masters answered`);
}

/** Too few nodes did what was asked. */
export function tooFew<T>(
  key: string,
  nodes: readonly QuorumNode[],
  votes: readonly Vote<T>[],
  what: string,
): LockStoreError {
  const failures = votes.filter(({ error }) => error !== undefined);
  const answers = failures.map(({ node, error }) => {
    return { node: node.name, answer: 'unreachable', detail: messageOf(error).replace(/\.$/, '') } as const;
  });
  const isHopeless = ({ error }: Vote<T>) => error instanceof LockStoreError && !error.retryable;
  const retryable = failures.length === 0 || !failures.every(isHopeless);
  const text = `${what} for the lock "${key}", and a majority of ${majorityOf(nodes)} is needed.${nodesText(answers)}`;
  return new LockStoreError(text, { key, nodes: answers, retryable, cause: failures[0]?.error });
}

/** The n-th greatest, from 1. */
const nth = (values: readonly number[], n: number): number => [...values].sort((a, b) => b - a)[n - 1] ?? 0;

/** Whether so many nodes lost something that no majority can have it any more. */
export const isBeyond = (nodes: readonly unknown[], count: number): boolean => count > nodes.length - majorityOf(nodes);

/** A renewal counts when a majority renewed, for as long as the shortest of the best majority. */
export function mergeRenewals(nodes: readonly QuorumNode[], votes: readonly Vote<RenewReply>[]): RenewReply {
  const replies = valuesOf(votes);
  const renewed = replies.filter((reply) => reply.outcome === 'renewed');
  const lost = replies.filter((reply) => reply.outcome === 'lost');
  const majority = majorityOf(nodes);
  if (renewed.length >= majority) {
    const remainingMs = nth(
      renewed.map((reply) => reply.remainingMs),
      majority,
    );
    return { outcome: 'renewed', remainingMs };
  }
  if (isBeyond(nodes, lost.length)) return mergeLosses(lost);
  const failed = replies.find((reply) => reply.outcome === 'unknown')?.cause;
  return { outcome: 'unknown', cause: failed ?? votes.find(({ error }) => error !== undefined)?.error };
}

/** What several nodes said of a hold that is gone. */
export const mergeLosses = (losses: readonly LostReply[]): LostReply => ({
  outcome: 'lost',
  lastToken: Math.max(...losses.map(({ lastToken }) => lastToken)),
  forced: losses.some(({ forced }) => forced),
});

const GIVEN_BACK = ['released', 'again', 'cancelled'];

/** Undefined: it is not known yet, or too few nodes answered. */
export function mergeReleases(
  nodes: readonly QuorumNode[],
  votes: readonly Vote<ReleaseReply>[],
): ReleaseReply | undefined {
  const replies = valuesOf(votes);
  const majority = majorityOf(nodes);
  const given = replies.filter(({ outcome }) => GIVEN_BACK.includes(outcome));
  const gone = replies.filter(({ outcome }) => !GIVEN_BACK.includes(outcome));
  const lastToken = Math.max(0, ...replies.map((reply) => reply.lastToken));
  // Others hold it when they hold a majority.
  const holds = nth(
    replies.map((reply) => reply.holds),
    majority,
  );
  const best = (candidates: readonly ReleaseReply[], order: readonly ReleaseReply['outcome'][]) =>
    order.find((outcome) => candidates.some((reply) => reply.outcome === outcome))!;
  if (given.length >= majority) {
    return { outcome: best(given, ['released', 'again', 'cancelled']), holds, lastToken };
  }
  if (!isBeyond(nodes, gone.length)) return undefined;
  return { outcome: best(gone, ['forced', 'expired', 'unknown']), holds, lastToken };
}

/** A lock is held by those who hold it on a majority of the nodes, as far as those that answered can tell. */
export function mergeStates(key: string, nodes: readonly QuorumNode[], states: readonly LockState[]): LockState {
  const silent = nodes.length - states.length;
  const enough = Math.max(majorityOf(nodes) - silent, 1);
  const found = states.flatMap(({ holders }) => holders);
  const attempts = [...new Set(found.map(({ attempt }) => attempt))];
  const counted = attempts
    .map((attempt) => found.filter((holder) => holder.attempt === attempt))
    .filter((same) => same.length >= enough)
    .sort((a, b) => b.length - a.length)
    .map((same) => mergeHolder(same, enough));
  // Of writers only one can have it; the others are about to give back what they got.
  const holders = counted[0]?.mode === 'write' ? counted.slice(0, 1) : counted.filter(({ mode }) => mode === 'read');
  const waiters = Math.max(...states.map((state) => state.waiters));
  const fencingToken = Math.max(...states.map((state) => state.fencingToken));
  return { key, mode: holders[0]?.mode ?? 'free', holders, waiters, fencingToken };
}

const mergeHolder = (same: readonly LockHolder[], enough: number): LockHolder => ({
  ...same[0]!,
  remainingMs: nth(
    same.map(({ remainingMs }) => remainingMs),
    enough,
  ),
  fencingToken: Math.max(...same.map(({ fencingToken }) => fencingToken)),
});

/** The latest run that any node remembers. */
export function mergeRuns(runs: readonly (LastRun | null)[]): LastRun | null {
  const known = runs.filter((run) => run !== null);
  return known.sort((a, b) => b.started.getTime() - a.started.getTime())[0] ?? null;
}
