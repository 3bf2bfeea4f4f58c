import { type Clock } from './clock.js';

/** The share of a lease that clocks of different hosts may drift apart, and what a timer and a rounding may cost. */
const DRIFT = 0.01;
const ROUNDING_MS = 2;

/**
 * Until when a lease can be proven on this host. It is counted from before the command was sent, so that however late
 * the reply comes, the server's own deadline is later. (The validity time of the Redlock algorithm, Redis docs,
 * "Distributed Locks with Redis".)
 */
export interface Lease {
  /** On the monotonic clock. */
  readonly deadline: number;
  /** On the wall clock: passed before `deadline` when the machine slept, or when the clock was set. */
  readonly wallDeadline: number;
}

/** A moment on both clocks, taken before a command is sent. */
export interface Moment {
  readonly at: number;
  readonly wallAt: number;
}

export const moment = (clock: Clock): Moment => ({ at: clock.now(), wallAt: clock.wallNow() });

/** The lease that a reply proves: `remainingMs` were left on the server some time after `sent`. */
export function leaseFrom(sent: Moment, remainingMs: number): Lease {
  const provenMs = remainingMs * (1 - DRIFT) - ROUNDING_MS;
  return { deadline: sent.at + provenMs, wallDeadline: sent.wallAt + provenMs };
}

/**
 * The lease of a grant that the store told by itself. Its time on the store's clock is related to ours by an earlier reply,
 * whose command was sent at `sent`: no later than `repliedMs` there. Never longer than counted from its arrival.
 */
export function leaseOfPush(
  { grantedMs, remainingMs, receivedAt }: { grantedMs: number; remainingMs: number; receivedAt: Moment },
  { sent, repliedMs }: { sent: Moment; repliedMs: number },
): Lease {
  const proven = leaseFrom(sent, grantedMs + remainingMs - repliedMs);
  const received = leaseFrom(receivedAt, remainingMs);
  return received.deadline > proven.deadline ? proven : received;
}

/** The longer of two proofs of the same hold. */
export const longer = (a: Lease, b: Lease): Lease => (b.deadline > a.deadline ? b : a);

/** What is left, in milliseconds, by the more pessimistic clock; 0 when over. */
export const remainingOf = (lease: Lease, clock: Clock): number =>
  Math.max(0, Math.min(lease.deadline - clock.now(), lease.wallDeadline - clock.wallNow()));
