import { type Clock } from '../clock.js';
import { waiterLeaseMs } from '../timing.js';
import type { Grant } from '../hold/store-hold.js';
import { type AcquireFailure, type LockEventMap, type LockEvents, type LockLabel } from '../lock.events.js';
import { LockBusyError, LockClaimedError, LockShutdownError, LockWaitTimeoutError } from '../lock.errors.js';
import { type ResolvedLockOptions } from '../lock.options.js';
import { type Lease, leaseOfPush, type Moment } from '../hold/lease.js';
import { releasesOfAttempt } from '../store/attempt-ids.js';
import {
  type AcquireReply,
  type AcquireRequest,
  type FireClaim,
  type LockStore,
  type ReleaseRequest,
  type WakeUp,
} from '../store/lock-store.js';
import { type TimerQueue } from '../timer-queue.js';

/** An acquisition that is not over yet. */
export interface Waiting {
  onWakeUp(wakeUp: WakeUp): void;
  giveUp(error: unknown): void;
}

/** What an acquisition needs from its locker. */
export interface AcquisitionHost {
  readonly clock: Clock;
  readonly timers: TimerQueue;
  readonly store: LockStore;
  readonly events: LockEvents;
  readonly holder: string;
  nextAttempt(): string;
  /** The acquisition now has this attempt (null: it is over). */
  onAttempt(acquisition: Waiting, before: string | null, now: string | null): void;
  /** Whether a lock that was granted to this attempt is held. */
  isHeld(attempt: string): boolean;
  /** Whatever this attempt has in the store is to be given back, and the fire that it claimed if it was not granted. */
  abandon(wanted: LockRequest, attempt: string, state: AttemptState): void;
}

/** What is known of an attempt that is to be given back. */
export interface AttemptState {
  readonly wasGranted: boolean;
  /** A command of it had no answer, and may still arrive. */
  readonly unanswered: boolean;
}

/** What is acquired, and for whom. */
export interface LockRequest {
  /** One group of the store. */
  readonly keys: readonly string[];
  /** The keys as people read them, in the order in which the caller named them. */
  readonly name: string;
  readonly options: ResolvedLockOptions;
  readonly label: LockLabel;
  readonly claim?: FireClaim | undefined;
  /** When the call began, on the monotonic clock: it may have acquired other groups since. */
  readonly startedAt: number;
}

/** Who asks, for people. */
export const holderOf = ({ label }: LockRequest, { holder }: AcquisitionHost): string =>
  label.where ? `${holder} ${label.where}` : holder;

/** What gives back all that an attempt has, or may get. */
export const releasesOf = (
  { keys, claim, options: { leaseMs } }: LockRequest,
  attempt: string,
  { wasGranted, unanswered }: AttemptState,
): readonly ReleaseRequest[] =>
  releasesOfAttempt({ keys, attempt, leaseMs, claim: wasGranted ? undefined : claim, unanswered });

/** For how long the call has waited so far. */
export const waitedMsOf = (
  { startedAt }: Pick<LockRequest, 'startedAt'>,
  { clock }: Pick<AcquisitionHost, 'clock'>,
): number => Math.round(clock.now() - startedAt);

/** What to ask the store. */
export function requestOf(wanted: LockRequest, attempt: string, host: AcquisitionHost): AcquireRequest {
  const { keys, claim, options } = wanted;
  const { mode, leaseMs, waitMs, holdAtLeastMs, owner, fair, permits } = options;
  return {
    keys,
    attempt,
    owner,
    mode,
    leaseMs: Math.max(leaseMs, holdAtLeastMs),
    waiterLeaseMs: waitMs === 0 ? 0 : waiterLeaseMs(leaseMs),
    fair,
    permits,
    holder: holderOf(wanted, host),
    claim,
  };
}

/** What the store says of a lock that is busy. */
export type Busy = AcquireReply & { readonly outcome: 'busy' };

/**
 * The lease that a pushed grant proves; null: the attempt has to ask. A pushed grant is short: where no renewal makes it
 * full soon, or a crash must not shorten it, it is of no use. It is of one key, and of the server that put the attempt into
 * its queue: another one may have been replaced by that. (Of a cluster no node is told; a grant of any stands.)
 */
export function leaseOfPushed(
  { keys, options }: LockRequest,
  { sent, reply }: { readonly sent: Moment; readonly reply: Busy },
  { fencingToken, remainingMs, server }: WakeUp & { readonly kind: 'granted' },
  receivedAt: Moment,
): Lease | null {
  const suffices = options.renew && options.holdAtLeastMs === 0 && keys.length === 1;
  const isNew = server === reply.server && fencingToken > (reply.lastToken ?? 0);
  return suffices && isNew ? leaseOfPush(remainingMs, sent, receivedAt) : null;
}

/** What was granted, and what was asked for. */
export function grantOf(
  { keys, label, claim, options }: LockRequest,
  { attempt, tokens, ...told }: Pick<Grant, GrantedPart> & { readonly tokens: readonly number[] },
): Grant {
  const { mode, leaseMs, renew, maxHoldMs, holdAtLeastMs, permits, owner = attempt } = options;
  const holds = keys.map((key, i) => ({ key, attempt, fencingToken: tokens[i]! }));
  const kept = { mode, leaseMs, renew, maxHoldMs, holdAtLeastMs, permits, label, job: claim?.job };
  return { holds, attempt, owner, ...kept, ...told };
}

type GrantedPart = 'attempt' | 'holder' | 'lease' | 'sent' | 'serverTimeMs' | 'unanswered' | 'waitedMs';

/** What the event of a failed acquisition says. */
export const failedEvent = (
  wanted: LockRequest,
  host: Pick<AcquisitionHost, 'clock'>,
  error: unknown,
  waited: boolean,
): LockEventMap['acquireFailed'] => ({
  ...wanted.label,
  key: wanted.name,
  mode: wanted.options.mode,
  waitedMs: waitedMsOf(wanted, host),
  waited,
  reason: failureOf(error, wanted.options.signal),
  error,
});

function failureOf(error: unknown, signal: AbortSignal | undefined): AcquireFailure {
  if (error instanceof LockWaitTimeoutError) return 'timeout';
  if (error instanceof LockClaimedError) return 'claimed';
  if (error instanceof LockBusyError) return 'busy';
  if (error instanceof LockShutdownError) return 'shutdown';
  return signal?.aborted && error === signal.reason ? 'aborted' : 'error';
}
