import { type Clock } from './clock.js';
import { waiterLeaseMs } from './command-times.js';
import type { Grant } from './held-lock.js';
import { type LockEvents } from './lock-events.js';
import { type LockLabel } from './lock-label.js';
import { type ResolvedLockOptions } from './lock-options.js';
import { type AcquireRequest, type FireClaim, type LockStore, type WakeUp } from './lock-store.js';
import { type TimerQueue } from './timer-queue.js';

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
  abandon(wanted: Wanted, attempt: string, wasGranted: boolean): void;
}

/** What is acquired, and for whom. */
export interface Wanted {
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
export const holderOf = ({ label }: Wanted, { holder }: AcquisitionHost): string =>
  label.where ? `${holder} ${label.where}` : holder;

/** For how long the call has waited so far. */
export const waitedMsOf = (
  { startedAt }: Pick<Wanted, 'startedAt'>,
  { clock }: Pick<AcquisitionHost, 'clock'>,
): number => Math.round(clock.now() - startedAt);

/** What to ask the store. */
export function requestOf(wanted: Wanted, attempt: string, host: AcquisitionHost): AcquireRequest {
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
    limit: permits,
    holder: holderOf(wanted, host),
    claim,
  };
}

/** What was granted, and what was asked for. */
export function grantOf(
  { keys, label, claim, options }: Wanted,
  { attempt, tokens, ...told }: Pick<Grant, GrantedPart> & { readonly tokens: readonly number[] },
): Grant {
  const { mode, leaseMs, renew, maxHoldMs, holdAtLeastMs, permits, owner = attempt } = options;
  const holds = keys.map((key, i) => ({ key, attempt, fencingToken: tokens[i]! }));
  const kept = { mode, leaseMs, renew, maxHoldMs, holdAtLeastMs, permits, label, job: claim?.job };
  return { holds, attempt, owner, ...kept, ...told };
}

type GrantedPart = 'attempt' | 'holder' | 'lease' | 'sent' | 'serverTimeMs' | 'waitedMs';
