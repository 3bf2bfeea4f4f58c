import { nodesText } from '../../core/error-texts.js';
import { byStart } from '../../core/store/lock-state.js';
import { type Subject, forSubject, keyOfSubject } from '../../core/store/subject.js';
import { type AdoptReply, type LostReply, type ReleaseReply, type RenewReply } from '../../core/store/lock-store.js';
import { type LastRun, type LockHolder, type LockState, type LockWaiter } from '../../core/store/lock-state.js';
import { LockStoreError } from '../../core/lock.errors.js';
import { reasonOf } from '../../core/reporter.js';
import { type QuorumNode } from './quorum-node.js';
import { type Vote, countOf, rulesOutMajority, majorityOf } from './votes.js';

/** The values among the votes. */
export const valuesOf = <T>(votes: readonly Vote<T>[]): T[] =>
  votes.flatMap((vote) => (vote.error === undefined ? [vote.value as T] : []));

/** Whether all nodes have answered that are not known to be away. */
export const haveAnswered = (nodes: readonly QuorumNode[], votes: readonly Vote<unknown>[]): boolean =>
  nodes.every((node) => node.isAway || votes.some((vote) => vote.node === node));

/** @throws LockStoreError with the answer of each node, unless a majority answered */
export function checkAnswered<T>(subject: Subject, nodes: readonly QuorumNode[], votes: readonly Vote<T>[]): void {
  const values = valuesOf(votes);
  if (values.length >= majorityOf(nodes)) return;
  throw tooFew(subject, nodes, votes, `Only ${values.length} of ${nodes.length} masters answered`);
}

/** The error when too few nodes executed a request. */
export function tooFew<T>(
  subject: Subject,
  nodes: readonly QuorumNode[],
  votes: readonly Vote<T>[],
  what: string,
): LockStoreError {
  const failures = votes.filter(({ error }) => error !== undefined);
  const answers = failures.map(({ node, error }) => {
    return { node: node.name, answer: 'unreachable', detail: reasonOf(error) } as const;
  });
  const retryable = mayAnswerOnRetry(
    nodes,
    failures.map(({ error }) => error),
  );
  const text = `${what} ${forSubject(subject)}, and a majority of ${majorityOf(nodes)} is needed.${nodesText(answers)}`;
  return new LockStoreError(text, { key: keyOfSubject(subject), nodes: answers, retryable, cause: failures[0]?.error });
}

/** Whether a retry may reach a majority. */
export function mayAnswerOnRetry(nodes: readonly QuorumNode[], failures: readonly unknown[]): boolean {
  const permanent = failures.filter((error) => error instanceof LockStoreError && !error.retryable);
  return !rulesOutMajority(nodes, permanent.length);
}

/** The number of equal answers that may form a majority, if the nodes without an answer agree with them. */
const enoughOf = (nodes: readonly QuorumNode[], answers: readonly unknown[]): number =>
  Math.max(majorityOf(nodes) - (nodes.length - answers.length), 1);

/** The n-th greatest value, counted from 1. */
const nthGreatest = (values: readonly number[], n: number): number => [...values].sort((a, b) => b - a)[n - 1] ?? 0;

/** A renewal counts when a majority renewed; it lasts as long as the shortest lease of the best majority. */
export function mergeRenewals(nodes: readonly QuorumNode[], votes: readonly Vote<RenewReply>[]): RenewReply {
  const replies = valuesOf(votes);
  const renewed = replies.filter((reply) => reply.outcome === 'renewed');
  const lost = replies.filter((reply) => reply.outcome === 'lost');
  const majority = majorityOf(nodes);
  if (renewed.length >= majority) {
    const remainingMs = nthGreatest(
      renewed.map((reply) => reply.remainingMs),
      majority,
    );
    return { outcome: 'renewed', remainingMs };
  }
  if (rulesOutMajority(nodes, lost.length)) return mergeLosses(lost);
  const failed = replies.find((reply) => reply.outcome === 'unknown')?.cause;
  return { outcome: 'unknown', cause: failed ?? votes.find(({ error }) => error !== undefined)?.error };
}

/** Merges the replies of nodes that have lost a hold. */
const mergeLosses = (losses: readonly LostReply[]): LostReply => ({
  outcome: 'lost',
  lastToken: Math.max(...losses.map(({ lastToken }) => lastToken)),
  revoked: losses.some(({ revoked }) => revoked),
});

/**
 * An adoption counts when a majority adopted the hold; it lasts as long as the shortest lease of the best majority. Undefined: not
 * known yet, or too few nodes answered.
 */
export function mergeAdoptions(
  nodes: readonly QuorumNode[],
  votes: readonly Vote<AdoptReply>[],
): AdoptReply | undefined {
  const replies = valuesOf(votes);
  const lost = replies.filter((reply) => reply.outcome === 'lost');
  if (rulesOutMajority(nodes, lost.length)) return mergeLosses(lost);
  const leases = replies.flatMap((reply) => (reply.outcome === 'adopted' ? [reply.remainingMs] : []));
  const majority = majorityOf(nodes);
  return leases.length < majority ? undefined : { outcome: 'adopted', remainingMs: nthGreatest(leases, majority) };
}

const CONFIRMING = ['released', 'again', 'cancelled'];

/** Undefined: not known yet, or too few nodes answered. */
export function mergeReleases(
  nodes: readonly QuorumNode[],
  votes: readonly Vote<ReleaseReply>[],
): ReleaseReply | undefined {
  const replies = valuesOf(votes);
  const majority = majorityOf(nodes);
  const confirmed = replies.filter(({ outcome }) => CONFIRMING.includes(outcome));
  const gone = replies.filter(({ outcome }) => !CONFIRMING.includes(outcome));
  const lastToken = Math.max(0, ...replies.map((reply) => reply.lastToken));
  const holds = nthGreatest(
    replies.map((reply) => reply.holds),
    enoughOf(nodes, replies),
  );
  const best = (candidates: readonly ReleaseReply[], order: readonly ReleaseReply['outcome'][]) =>
    order.find((outcome) => candidates.some((reply) => reply.outcome === outcome))!;
  if (confirmed.length >= majority) {
    return { outcome: best(confirmed, ['released', 'again', 'cancelled']), holds, lastToken };
  }
  if (!rulesOutMajority(nodes, gone.length)) return undefined;
  return { outcome: best(gone, ['revoked', 'expired', 'unknown', 'lost']), holds, lastToken };
}

/** A lock is held by the attempts that hold it on a majority of the nodes, according to the answers. */
export function mergeStates(key: string, nodes: readonly QuorumNode[], states: readonly LockState[]): LockState {
  const enough = enoughOf(nodes, states);
  const found = states.flatMap(({ holders }) => holders);
  const attempts = [...new Set(found.map(({ attempt }) => attempt))];
  const groups = attempts
    .map((attempt) => found.filter((holder) => holder.attempt === attempt))
    .filter((same) => same.length >= enough)
    .sort((a, b) => b.length - a.length);
  const counted = groups.map((same) => mergeHolder(same, enough));
  // Only one owner can hold it for writing; the others are about to give their grants back.
  const isSure = (i: number) => groups[i]!.length >= majorityOf(nodes);
  const first = counted.find(({ mode }, i) => mode === 'write' && isSure(i)) ?? counted[0];
  const holders = counted.filter(({ mode, owner }) =>
    first!.mode === 'write' ? owner === first!.owner : mode === 'read',
  );
  const waiters = nthGreatest(
    states.map((state) => state.waiters),
    enough,
  );
  const fencingToken = mostCommon(states.map((state) => state.fencingToken));
  const queue = mergeQueues(states, enough);
  const readAt = new Date(Math.max(...states.map(({ readAt: at }) => Number(at))));
  return { key, mode: first?.mode ?? 'free', holders, waiters, queue, permits: null, fencingToken, readAt };
}

/** The waiters on enough nodes, by the time when they began to wait: each node has a different order. */
function mergeQueues(states: readonly LockState[], enough: number): readonly LockWaiter[] {
  const found = states.flatMap(({ queue }) => queue).sort((a, b) => a.since.getTime() - b.since.getTime());
  const attempts = [...new Set(found.map(({ attempt }) => attempt))];
  const groups = attempts.map((attempt) => found.filter((waiter) => waiter.attempt === attempt));
  return groups.filter((same) => same.length >= enough).map(([first], i) => ({ ...first!, place: i + 1 }));
}

const mergeHolder = (same: readonly LockHolder[], enough: number): LockHolder => ({
  ...same[0]!,
  // A node may have missed a downgrade.
  mode: same.filter(({ mode }) => mode === 'write').length >= enough ? 'write' : 'read',
  remainingMs: nthGreatest(
    same.map(({ remainingMs }) => remainingMs),
    enough,
  ),
  fencingToken: mostCommon(same.map(({ fencingToken }) => fencingToken)),
});

/**
 * The most common token, or the greatest of several: a node that voted late has a different token until that of the
 * majority is written back.
 */
function mostCommon(tokens: readonly number[]): number {
  return [...tokens].sort((a, b) => countOf(tokens, b) - countOf(tokens, a) || b - a)[0] ?? 0;
}

/** A run as several nodes report it. */
interface MergedRun {
  readonly run: LastRun;
  /** Whether a majority may have it, counting nodes without an answer. */
  readonly isLikely: boolean;
}

/**
 * Merges the last run of each job, as reported by each node that answered. Returns the last run of one job, or the latest
 * run of all jobs.
 */
export function mergeRuns(nodes: readonly QuorumNode[], reports: RunReports, job?: string): LastRun | null {
  const jobs = job === undefined ? [...new Set(reports.flat().map((run) => run.job))] : [job];
  const enough = enoughOf(nodes, reports);
  const merged = jobs.flatMap((one) => mergeRunsOf(one, reports, enough) ?? []);
  return merged.sort((a, b) => byLikelihood(a, b) || byStart(a.run, b.run))[0]?.run ?? null;
}

/** Per node, the last run of each job. */
type RunReports = readonly (readonly LastRun[])[];

/** A node may remember a claim that was given back: runs that a majority may have come first. */
const byLikelihood = (a: MergedRun, b: MergedRun): number => Number(b.isLikely) - Number(a.isLikely);

/**
 * The latest run of a job among those that a majority may have: a node that missed it may report an earlier one. It began when the
 * first node granted it. An outcome from any node counts, because other nodes may have missed it. Its lease ends on each node at
 * another time: the run is lost when no majority can have its lock any longer.
 */
function mergeRunsOf(job: string, reports: RunReports, enough: number): MergedRun | undefined {
  const known = reports.flat().filter((run) => run.job === job);
  const hasOutcome = ({ outcome }: LastRun) => outcome === 'done' || outcome === 'failed';
  const merged = [...new Set(known.map(({ attempt }) => attempt))].map((attempt): MergedRun => {
    const same = known.filter((run) => run.attempt === attempt);
    const started = new Date(Math.min(...same.map((run) => run.started.getTime())));
    const running = countOf(
      same.map(({ outcome }) => outcome),
      'running',
    );
    const likely = running >= Math.min(enough, same.length) ? 'running' : 'lost';
    const run = same.find(hasOutcome) ?? same.find(({ outcome }) => outcome === likely)!;
    return { run: { ...run, started }, isLikely: same.length >= enough };
  });
  const order: ((one: MergedRun) => number)[] = [
    ({ isLikely }) => Number(isLikely),
    ({ run }) => run.fire.getTime(),
    ({ run }) => Number(hasOutcome(run)),
    ({ run }) => run.started.getTime(),
  ];
  const later = (a: MergedRun, b: MergedRun) =>
    order.map((by) => by(b) - by(a)).find((difference) => difference !== 0) ?? 0;
  return merged.sort(later)[0];
}
