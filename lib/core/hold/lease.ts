import { type Clock } from '../clock.js';
import { CLOCK_DRIFT, ROUNDING_MS } from '../timing.js';

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
  const provenMs = remainingMs * (1 - CLOCK_DRIFT) - ROUNDING_MS;
  return { deadline: sent.at + provenMs, wallDeadline: sent.wallAt + provenMs };
}

/**
 * The lease of a grant that the store told by itself. It was made after the last command that was answered with busy, which
 * was sent at `sent`; what a server's clock says of it proves nothing, since it may be set, or be that of another server.
 * Never longer than counted from its arrival. Each clock is judged by itself: after a sleep of the machine the one that stood
 * still says nothing about the other.
 */
export const leaseOfPush = (remainingMs: number, sent: Moment, receivedAt: Moment): Lease =>
  ofEachClock(Math.min, leaseFrom(sent, remainingMs), leaseFrom(receivedAt, remainingMs));

/**
 * What two proofs of the same hold prove together: the later deadline of each clock. Each proof is right by a clock that
 * neither stood still nor was set back since, so together they are by the same clock; the other one cannot make it longer.
 */
export const longer = (a: Lease, b: Lease): Lease => ofEachClock(Math.max, a, b);

const ofEachClock = (choose: (a: number, b: number) => number, a: Lease, b: Lease): Lease => ({
  deadline: choose(a.deadline, b.deadline),
  wallDeadline: choose(a.wallDeadline, b.wallDeadline),
});

/** What is left, in milliseconds, by the more pessimistic clock; 0 when over. */
export const remainingOf = (lease: Lease, clock: Clock): number =>
  Math.max(0, Math.min(lease.deadline - clock.now(), lease.wallDeadline - clock.wallNow()));
