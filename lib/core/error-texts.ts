import { checkedKey } from './key.js';
import {
  type LockMode,
  LockClaimedError,
  LockConfigurationError,
  LockLostError,
  type LockLostReason,
  LockNotHeldError,
  LockReentryError,
  LockShutdownError,
  LockStoreError,
  type NodeAnswer,
} from './lock.errors.js';
import { type Lock } from './lock.js';
import { durationText, printable } from './printable.js';
import { messageOf } from './reporter.js';

/** The lock that an error names; several keys are joined by `, `. */
export interface LockName {
  readonly key: string;
  readonly mode: LockMode;
  /** The number of holders that the call lets in; 0 or undefined unless it is a semaphore. */
  readonly permits?: number | undefined;
  /** The number of permits that the call takes; undefined: one. */
  readonly take?: number | undefined;
}

export function unansweredError({ key, mode }: LockName, waitedMs: number, cause: unknown): LockStoreError {
  const reason = cause === undefined ? 'Redis gave no answer. Check the connection.' : textWithin(cause, key);
  const text = `The lock "${key}" (${mode}) was not acquired within ${durationText(waitedMs)}: ${reason}`;
  const nodes = cause instanceof LockStoreError ? cause.nodes : undefined;
  return new LockStoreError(text, { key, mode, cause, nodes });
}

/** The text of an error inside another text that already names the same key. */
export function textWithin(cause: unknown, key: string): string {
  const text = messageOf(cause);
  if (!(cause instanceof LockStoreError) || cause.key !== key) return text;
  return text.replace(`Redis could not serve the lock "${printable(key)}": `, '');
}

export const upgradeError = ({ key, mode }: LockName): LockReentryError =>
  new LockReentryError(
    `The owner that asks to write "${key}" holds it for reading: an upgrade would wait for its own end. Release the read ` +
      'lock first, or acquire it for writing from the start.',
    { key, mode },
  );

export const claimedError = ({ key, mode }: LockName): LockClaimedError =>
  new LockClaimedError(`This fire of "${key}" is being run, or has been run, by another call.`, { key, mode });

/** Made for each call that a shutdown cancels: its stack shows where the call came from. */
export const shutdownError = (): LockShutdownError =>
  new LockShutdownError('The application is shutting down: no more locks are acquired.');

const WHY_LOST: Record<LockLostReason, string> = {
  expired: 'its lease ended before it was renewed (was the process paused, or the key deleted in Redis?)',
  taken: 'it has been granted to another caller since',
  unreachable: 'Redis could not be reached before the lease was over',
  'max-hold': 'it was held for longer than maxHoldMs, or for more than a lease after its iteration was ended',
  revoked: 'an operator revoked it (`forceRelease`)',
  shutdown: 'the app was shutting down, or its leader stepped down, and `drainMs` was over',
  dropped: 'its handle was garbage-collected without a release',
};

export function lostError(lock: Lock, reason: LockLostReason, cause?: unknown): LockLostError {
  const text =
    `The lock "${lock.key}" (${lock.mode}, fencing token ${lock.fencingTokens.join(', ')}) was lost: ${WHY_LOST[reason]}. ` +
    'Stop the work on `lock.signal`, and let the protected resource refuse older fencing tokens.';
  return new LockLostError(text, { key: lock.key, mode: lock.mode, reason, ...(cause === undefined ? {} : { cause }) });
}

/** A term is over, but the lock of the leader was not lost. */
export const steppedDownError = (key: string, how: 'resigned' | 'stopped'): LockNotHeldError => {
  const text = `This instance no longer leads "${key}": its leader ${how === 'resigned' ? 'resigned' : 'was stopped'}. Stop the work of the term.`;
  return new LockNotHeldError(text, { key, mode: 'write' });
};

/** A campaign has ended: its instance is not elected again. */
export const stoppedCampaignError = (key: string): LockNotHeldError =>
  new LockNotHeldError(`The campaign for "${key}" was stopped. Call lead() again to campaign.`, { key, mode: 'write' });

/** A command for a held lock had no answer. */
export const unconfirmedError = ({ key, mode }: LockName, done: string, cause: unknown): LockStoreError => {
  const text = `The lock "${key}" could not be ${done}: ${textWithin(cause, key)}. It is held while \`held\` is true.`;
  return new LockStoreError(text, { key, mode, cause });
};

/** The answers of the masters of a quorum, as a further sentence; empty for other stores. */
export function nodesText(nodes: readonly NodeAnswer[] | undefined): string {
  if (!nodes) return '';
  const answers = nodes.map(({ node, answer, detail }) => `${node} ${answer}${detail && ` (${detail})`}`);
  return ` Nodes: ${answers.join('; ')}.`;
}

export function nestedUpgradeError(key: string, held: LockMode): LockReentryError {
  const advice =
    'an upgrade would wait for its own end, and for every other reader that tries the same. Write from the start';
  return nestedError({ key, mode: 'write' }, held, advice);
}

export const notReentrantError = (name: LockName, held: LockMode): LockReentryError =>
  nestedError(name, held, 'and `reentrant: false` forbids that. Call the inner work without its own lock');

/** The store would not count a permit inside a hold that more calls may share. */
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

/** A call waits until a lock is free that its own chain of calls holds. */
export const waitsForItselfError = ({ key, mode }: LockName): LockReentryError =>
  new LockReentryError(
    `A call that holds the lock "${key}" for ${mode} waits until it is free: it would wait for itself. Wait before the lock ` +
      'is acquired, or after it is released.',
    { key, mode },
  );

export const unawaitedCallError = ({ key, mode }: LockName): LockReentryError =>
  new LockReentryError(
    `The lock "${key}" is acquired for ${mode} inside a call that was not awaited and that keeps the hold from ending. ` +
      'Await nested calls before the outer one returns.',
    { key, mode },
  );

export const releasedError = ({ key, mode }: LockName, doing: string): LockNotHeldError =>
  new LockNotHeldError(`The lock "${key}" was released; acquire it again instead of ${doing} it.`, { key, mode });

export const releasedMeanwhileError = ({ key, mode }: LockName, done: string): LockNotHeldError =>
  new LockNotHeldError(`The lock "${key}" was released while it was ${done}.`, { key, mode });

/** The lock of `withLock` or of a decorated method cannot be transferred. */
export const ofCallError = ({ key, mode }: LockName): LockConfigurationError =>
  new LockConfigurationError(
    `The lock "${key}" belongs to a call (\`withLock\` or a decorated method), which releases it at its end. To transfer a ` +
      'lock, take it with `acquire` or `tryAcquire`.',
    { key, mode },
  );

/** A transferred hold no longer exists. */
export function notAdoptedError(
  { key, mode, fencingTokens }: LockName & { readonly fencingTokens: readonly number[] },
  reason: LockLostReason,
): LockLostError {
  const why = reason === 'expired' ? 'its lease is over, or it was adopted before' : WHY_LOST[reason];
  const text =
    `The lock "${key}" (${mode}, fencing token ${fencingTokens.join(', ')}) cannot be adopted: ${why}. A transfer token ` +
    'works once, until its lease ends. Acquire the lock again.';
  return new LockLostError(text, { key, mode, reason });
}

/** Locks with other prefixes are other locks. */
export const otherPrefixError = ({ key, mode }: LockName, theirs: string, ours: string): LockConfigurationError =>
  new LockConfigurationError(
    `The lock "${key}" was transferred by a module with the \`keyPrefix\` "${printable(theirs)}", and this one has ` +
      `"${printable(ours)}". Adopt it with the service of the same connection.`,
    { key, mode },
  );

/** A lock cannot become a read lock while a nested call writes under it. */
export const nestedWriterError = ({ key, mode }: LockName): LockReentryError => {
  const text = `A nested call writes, or waits to write, under the lock "${key}"; await it before downgrading.`;
  return new LockReentryError(text, { key, mode });
};

/** A nested call cannot downgrade what its outer call writes. */
export const outerWriterError = ({ key, mode }: LockName): LockReentryError => {
  const text = `The lock "${key}" belongs to an outer call, which still writes. Downgrade it there.`;
  return new LockReentryError(text, { key, mode });
};

/** Code asks for its lock, but runs without one. @throws LockKeyError for anything but a key */
export function notHeldHereError(key: string | undefined): LockNotHeldError {
  if (key !== undefined) checkedKey(key);
  const what = key === undefined ? 'No lock is held' : `The lock "${key}" is not held`;
  const text =
    `${what} here. Call this inside a method with @Locked, or inside \`withLock\`; work that is not awaited ` +
    'outlives its lock.';
  return new LockNotHeldError(text, { key });
}

export const unprovenError = ({ key, mode }: LockName): LockNotHeldError => {
  const text = `The lease of the lock "${key}" cannot be proven at the moment. Do not write while \`held\` is false.`;
  return new LockNotHeldError(text, { key, mode });
};

/** Code needs the lock of its method, but the method runs without it. */
export const runsUnlockedError = ({ key, mode }: LockName): LockNotHeldError => {
  const text =
    `The lock "${key}" is not held: Redis could not be reached, and the method runs unlocked, because of its \`onUnavailable\`. ` +
    "Check `currentLock().held` first, or let the method fail (`onUnavailable: 'fail'`).";
  return new LockNotHeldError(text, { key, mode });
};
