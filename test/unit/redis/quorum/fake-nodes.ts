import { type QuorumNode } from '../../../../lib/redis/quorum/quorum-node.js';
import { type Vote } from '../../../../lib/redis/quorum/votes.js';
import { type AcquireReply, type AcquireRequest } from '../../../../lib/core/store/lock-store.js';
import { type LockStoreError } from '../../../../lib/core/lock.errors.js';

/** Nodes of a quorum as far as a round or a merge reads them: n1, n2, ... */
export const nodesOf = (count: number): QuorumNode[] =>
  Array.from({ length: count }, (_, i) => ({ name: `n${i + 1}` }) as unknown as QuorumNode);

/** One vote per node, in order; an error is a node that could not be asked, undefined one that was not awaited. */
export const votesOf = <T>(nodes: readonly QuorumNode[], answers: readonly (T | Error | undefined)[]): Vote<T>[] =>
  answers.flatMap((answer, i) => {
    const node = nodes[i]!;
    if (answer === undefined) return [];
    return [answer instanceof Error ? { node, error: answer } : { node, value: answer }];
  });

export const acquireRequest = (request: Partial<AcquireRequest> = {}): AcquireRequest => ({
  keys: ['k'],
  attempt: 'client.1',
  owner: undefined,
  mode: 'write',
  leaseMs: 3_000,
  waiterLeaseMs: 0,
  fair: false,
  permits: 0,
  holder: 'host:1',
  ...request,
});

type Of<Outcome extends AcquireReply['outcome']> = Extract<AcquireReply, { outcome: Outcome }>;

export const granted = (tokens: readonly number[] = [7], rest: Partial<Of<'granted'>> = {}): AcquireReply => ({
  outcome: 'granted',
  fencingTokens: tokens,
  remainingMs: 3_000,
  serverTimeMs: 1_000,
  ...rest,
});

export const busy = (rest: Partial<Of<'busy'>> = {}): AcquireReply => ({
  outcome: 'busy',
  retryMs: 100,
  ahead: 0,
  holder: undefined,
  serverTimeMs: 1_000,
  ...rest,
});

/** `claimedBy`: the attempt whose run of the fire has no outcome yet. */
export const refused = (reason: Of<'refused'>['reason'], claimedBy?: string): AcquireReply => ({
  outcome: 'refused',
  reason,
  claimedBy,
});

export const givenBack = (cause: LockStoreError): AcquireReply => ({ outcome: 'given-back', cause });
