import { type AcquireReply } from './store/lock-store.js';
import {
  type LockMode,
  LockBusyError,
  LockClaimedError,
  LockReentryError,
  LockStoreError,
  LockWaitTimeoutError,
  type NodeAnswer,
} from './lock.errors.js';
import { messageOf } from './reporter.js';

/** Of which lock an error speaks: several keys are joined by `, `. */
export interface LockName {
  readonly key: string;
  readonly mode: LockMode;
  /** How many holders the call lets in; 0 or nothing: it is no semaphore. */
  readonly permits?: number | undefined;
}

/** What a store said of a lock that is busy. */
type Busy = Pick<Extract<AcquireReply, { outcome: 'busy' }>, 'holder' | 'ahead' | 'nodes' | 'owner'>;

export function busyError(name: LockName, busy: Omit<Busy, 'ahead'>): LockBusyError {
  const { key, mode } = name;
  const { holder, nodes } = busy;
  const permits = takenPermits(name, busy);
  const state = permits ? `busy: ${permitsText(permits)}` : `held${holder ? ` by ${holder}` : ''}`;
  const text =
    `The lock "${key}" (${mode}) is ${state}, and the call was not to wait. Try later, or give it a \`waitMs\`.` +
    nodesText(nodes);
  return new LockBusyError(text, { key, mode, nodes, permits });
}

export function waitTimeoutError(name: LockName, waitedMs: number, busy: Busy): LockWaitTimeoutError {
  const { key, mode } = name;
  const { holder, ahead, nodes } = busy;
  const permits = takenPermits(name, busy);
  const state = permits ? `: ${permitsText(permits)}` : holder ? `, held by ${holder}` : '';
  const text =
    `The lock "${key}" (${mode}) was still busy after ${waitedMs} ms${state}` +
    `${ahead > 0 ? `, with ${ahead} waiting before` : ''}. Wait longer (\`waitMs\`), or hold it shorter.${nodesText(nodes)}`;
  return new LockWaitTimeoutError(text, { key, mode, waitedMs, holder, nodes, permits });
}

/** A store names who holds a lock for writing only; a writer that waits keeps permits from those who come after it, too. */
const takenPermits = ({ permits }: LockName, { holder, owner }: Omit<Busy, 'ahead'>): number | undefined =>
  permits && !holder && !owner ? permits : undefined;

const permitsText = (permits: number): string =>
  permits === 1 ? 'its only permit is taken' : `all ${permits} permits are taken`;

export function unansweredError({ key, mode }: LockName, waitedMs: number, cause: unknown): LockStoreError {
  const reason = cause === undefined ? 'Redis gave no answer. Check the connection.' : messageOf(cause);
  const text = `The lock "${key}" (${mode}) was not acquired within ${waitedMs} ms: ${reason}`;
  const nodes = cause instanceof LockStoreError ? cause.nodes : undefined;
  return new LockStoreError(text, { key, mode, cause, nodes });
}

export const upgradeError = ({ key, mode }: LockName): LockReentryError =>
  new LockReentryError(
    `The owner that asks to write "${key}" holds it for reading: an upgrade would wait for itself. Release the read ` +
      'lock first, or acquire it for writing from the start.',
    { key, mode },
  );

export const claimedError = ({ key, mode }: LockName): LockClaimedError =>
  new LockClaimedError(`This fire of "${key}" is run, or was run, by another call.`, { key, mode });

/** What each master of a quorum answered, as a sentence more; nothing elsewhere. */
export function nodesText(nodes: readonly NodeAnswer[] | undefined): string {
  if (!nodes) return '';
  const answers = nodes.map(({ node, answer, detail }) => `${node} ${answer}${detail && ` (${detail})`}`);
  return ` Nodes: ${answers.join('; ')}.`;
}
