import { type AcquireReply } from './store/lock-store.js';
import {
  type LockMode,
  LockBusyError,
  LockClaimedError,
  LockLostError,
  type LockLostReason,
  LockReentryError,
  LockShutdownError,
  LockStoreError,
  LockWaitTimeoutError,
  type NodeAnswer,
} from './lock.errors.js';
import { type Lock } from './lock.js';
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

/** One for each call that a shutdown ends: its stack says where the call came from. */
export const shutdownError = (): LockShutdownError =>
  new LockShutdownError('The application is shutting down: locks are no longer acquired.');

const WHY_LOST: Record<LockLostReason, string> = {
  expired: 'its lease ended before it was renewed (was the process paused, or the key deleted in Redis?)',
  taken: 'somebody else was granted it since',
  unreachable: 'Redis could not be asked until the lease was over',
  'max-hold': 'it was held for longer than maxHoldMs, or for more than a lease after its iteration was ended',
  revoked: 'an operator revoked it (`forceRelease`)',
  shutdown: 'the app shuts down, and `drainMs` was over',
  dropped: 'its handle was garbage-collected without a release',
};

/** Tells a holder of its loss. */
export function lostError(lock: Lock, reason: LockLostReason, cause?: unknown): LockLostError {
  const text =
    `The lock "${lock.key}" (${lock.mode}, fencing token ${lock.fencingTokens.join(', ')}) was lost: ${WHY_LOST[reason]}. ` +
    'Stop the work on `lock.signal`, and let the protected resource refuse older fencing tokens.';
  return new LockLostError(text, { key: lock.key, mode: lock.mode, reason, ...(cause === undefined ? {} : { cause }) });
}

/** A command for a lock that is held had no answer. */
export const unconfirmedError = ({ key, mode }: LockName, done: string, cause: unknown): LockStoreError => {
  const text = `The lock "${key}" could not be ${done}: ${messageOf(cause)}. It is held while \`held\` is true.`;
  return new LockStoreError(text, { key, mode, cause });
};

/** What each master of a quorum answered, as a sentence more; nothing elsewhere. */
export function nodesText(nodes: readonly NodeAnswer[] | undefined): string {
  if (!nodes) return '';
  const answers = nodes.map(({ node, answer, detail }) => `${node} ${answer}${detail && ` (${detail})`}`);
  return ` Nodes: ${answers.join('; ')}.`;
}

export function nestedUpgradeError(key: string, held: LockMode): LockReentryError {
  const advice =
    'an upgrade would wait for itself, and for every other reader that tries the same. Write from the start';
  return nestedError({ key, mode: 'write' }, held, advice);
}

export const notReentrantError = (name: LockName, held: LockMode): LockReentryError =>
  nestedError(name, held, 'and `reentrant: false` forbids that. Call the inner work without a lock of its own');

/** The store has not counted a permit that would be taken inside a hold which more calls may share. */
export function uncountedPermitError(name: LockName, held: LockMode, maxHolders: number): LockReentryError {
  const sharers = maxHolders === Infinity ? 'any number of readers' : `up to ${maxHolders}`;
  const advice =
    `at most ${name.permits} may be inside at a time, but ${sharers} may share such a hold. ` +
    'Take the permit from the start';
  return nestedError(name, held, advice);
}

function nestedError({ key, mode }: LockName, held: LockMode, advice: string): LockReentryError {
  const text = `The lock "${key}" is acquired for ${mode} inside a call that holds it for ${held}: ${advice}, or release`;
  return new LockReentryError(`${text} the outer lock first.`, { key, mode });
}

export const unawaitedCallError = ({ key, mode }: LockName): LockReentryError =>
  new LockReentryError(
    `The lock "${key}" is acquired for ${mode} inside a call that nobody awaited, and that keeps it from ending. ` +
      'Await nested calls before the outer one returns.',
    { key, mode },
  );

export const standstillError = ({ key, mode }: LockName, held: LockName): LockReentryError =>
  new LockReentryError(
    `The lock "${key}" is acquired for ${mode} by the consumer of an iteration that holds "${held.key}" for ${held.mode} ` +
      'until it ends, and that waits for this call. Make the call after the iteration, or in the method that is iterated.',
    { key, mode },
  );
