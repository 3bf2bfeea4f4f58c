import { type Clock, setDeadline } from '../../core/clock.js';
import { LockStoreError } from '../../core/lock.errors.js';
import { type QuorumNode } from './quorum-node.js';

/** What one node answered: a value, or why there is none. */
export type Vote<T> =
  | { readonly node: QuorumNode; readonly value: T; readonly error?: undefined }
  | { readonly node: QuorumNode; readonly value?: undefined; readonly error: unknown };

/** One question to all nodes at once. */
export interface Ballot<T> {
  readonly nodes: readonly QuorumNode[];
  readonly ask: (node: QuorumNode) => Promise<T>;
  /** For how long the nodes are waited for. */
  readonly timeoutMs: number;
  /** How much longer, if it may still come to what is hoped for. */
  readonly extra?: { readonly ms: number; readonly isHopeful: (votes: readonly Vote<T>[]) => boolean } | undefined;
  /** Whether these votes decide, whatever the others will be. */
  readonly isDecided: (votes: readonly Vote<T>[]) => boolean;
  /** Hears the votes that come after the others were counted. */
  readonly onLate?: (vote: Vote<T>) => void;
}

/** How many nodes make a majority. */
export const majorityOf = (nodes: readonly unknown[]): number => Math.floor(nodes.length / 2) + 1;

/** How many of `values` are `value`. */
export const countOf = <T>(values: readonly T[], value: T): number => values.filter((other) => other === value).length;

/** Whether so many nodes lost or refused something that no majority can have it. */
export const isBeyond = (nodes: readonly unknown[], count: number): boolean => count > nodes.length - majorityOf(nodes);

/**
 * Asks all nodes in parallel. Gives the votes as soon as they decide, or all are in, or the time is over: then there is
 * one for each node. Never rejects.
 */
export function gather<T>(clock: Clock, ballot: Ballot<T>): Promise<readonly Vote<T>[]> {
  const { nodes, timeoutMs } = ballot;
  const votes: Vote<T>[] = [];
  const heard = new Set<string>();
  return new Promise((resolve) => {
    let isCounted = false;
    let open = nodes.length;
    const count = (): void => {
      isCounted = true;
      cancel();
      resolve([...votes]);
    };
    const giveUp = (waitedMs: number): void => {
      votes.push(...silentOf(nodes, votes, waitedMs));
      count();
    };
    const waitMore = (): void => {
      const { ms, isHopeful } = ballot.extra ?? { ms: 0, isHopeful: () => false };
      if (!isHopeful(votes)) return giveUp(timeoutMs);
      cancel = setDeadline(clock, () => giveUp(timeoutMs + ms), ms);
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
      const asked = (async () => ballot.ask(node))();
      asked.then(
        (value) => take(isHeard(heard, node) ? { node, error: heardBefore(node) } : { node, value }),
        (error: unknown) => take({ node, error }),
      );
    }
  });
}

function silentOf<T>(nodes: readonly QuorumNode[], votes: readonly Vote<T>[], waitedMs: number): Vote<T>[] {
  const error = new Error(`no answer within ${Math.round(waitedMs)} ms`);
  return nodes.filter((node) => !votes.some((vote) => vote.node === node)).map((node) => ({ node, error }));
}

/** Notes whose vote this is; whether its server has voted before, by another node that has led there. */
function isHeard(heard: Set<string>, { runId }: QuorumNode): boolean {
  if (runId === undefined) return false;
  if (heard.has(runId)) return true;
  heard.add(runId);
  return false;
}

const heardBefore = ({ name }: QuorumNode): LockStoreError =>
  new LockStoreError(`The server of ${name} has voted already, by another address.`);
