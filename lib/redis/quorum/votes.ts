import { type Clock, setDeadline } from '../../core/clock.js';
import { LockStoreError } from '../../core/lock.errors.js';
import { type QuorumNode } from './quorum-node.js';

/** The answer of one node: a value or an error. */
export type Vote<T> =
  | { readonly node: QuorumNode; readonly value: T; readonly error?: undefined }
  | { readonly node: QuorumNode; readonly value?: undefined; readonly error: unknown };

/** One request to all nodes at once. */
export interface Ballot<T> {
  readonly nodes: readonly QuorumNode[];
  readonly ask: (node: QuorumNode) => Promise<T>;
  /** The time limit for the votes. */
  readonly timeoutMs: number;
  /** The extension of this limit, if the votes so far can still win. */
  readonly extra?: { readonly ms: number; readonly canWin: (votes: readonly Vote<T>[]) => boolean } | undefined;
  /** Whether these votes decide, whatever the others. */
  readonly isDecided: (votes: readonly Vote<T>[]) => boolean;
  /** Receives the votes that arrive after the count. */
  readonly onLate?: (vote: Vote<T>) => void;
}

/** The number of nodes in a majority. */
export const majorityOf = (nodes: readonly unknown[]): number => Math.floor(nodes.length / 2) + 1;

/** The number of items in `values` that equal `value`. */
export const countOf = <T>(values: readonly T[], value: T): number => values.filter((other) => other === value).length;

/** Whether no majority is left when this many nodes have lost or refused something. */
export const rulesOutMajority = (nodes: readonly unknown[], count: number): boolean =>
  count > nodes.length - majorityOf(nodes);

/**
 * Asks all nodes in parallel. Resolves with the votes as soon as they decide, or all are in; or at the timeout, then with
 * one vote per node. Never rejects.
 */
export function gather<T>(clock: Clock, ballot: Ballot<T>): Promise<readonly Vote<T>[]> {
  const { nodes, timeoutMs } = ballot;
  const votes: Vote<T>[] = [];
  const voters = new Set<string>();
  return new Promise((resolve) => {
    let isCounted = false;
    let open = nodes.length;
    const count = (): void => {
      isCounted = true;
      cancel();
      resolve([...votes]);
    };
    const countSilent = (waitedMs: number): void => {
      votes.push(...silentOf(nodes, votes, waitedMs));
      count();
    };
    const waitMore = (): void => {
      const { extra } = ballot;
      if (!extra?.canWin(votes)) return countSilent(timeoutMs);
      cancel = setDeadline(clock, () => countSilent(timeoutMs + extra.ms), extra.ms);
    };
    let cancel = setDeadline(clock, waitMore, timeoutMs);
    const take = (vote: Vote<T>): void => {
      open -= 1;
      if (isCounted) ballot.onLate?.(vote);
      else {
        votes.push(vote);
        if (open === 0 || ballot.isDecided(votes)) count();
      }
    };
    for (const node of nodes) {
      const answer = (async () => ballot.ask(node))();
      answer.then(
        (value) => take(hasVoted(voters, node) ? { node, error: votedBefore(node) } : { node, value }),
        (error: unknown) => take({ node, error }),
      );
    }
  });
}

function silentOf<T>(nodes: readonly QuorumNode[], votes: readonly Vote<T>[], waitedMs: number): Vote<T>[] {
  const error = new Error(`no answer within ${Math.round(waitedMs)} ms`);
  return nodes.filter((node) => !votes.some((vote) => vote.node === node)).map((node) => ({ node, error }));
}

/** Whether the server of this node has already voted, by another node that leads to it; records its vote. */
function hasVoted(voters: Set<string>, { runId }: QuorumNode): boolean {
  if (runId === undefined) return false;
  if (voters.has(runId)) return true;
  voters.add(runId);
  return false;
}

const votedBefore = ({ name }: QuorumNode): LockStoreError =>
  new LockStoreError(`The server of ${name} has voted already, by another address.`);
