import { type Clock, systemClock } from '../clock.js';
import { CLOCK_DRIFT, ROUNDING_MS } from '../timing.js';

/**
 * The deadline up to which this host can prove a lease. It is counted from before the command was sent, so however late the
 * reply comes, the server's own deadline is later. (The validity time of the Redlock algorithm; Redis docs, "Distributed
 * Locks with Redis".)
 */
export interface Lease {
  /** On the monotonic clock. */
  readonly deadline: number;
  /** On the wall clock, from the start of the process: it passes before `deadline` if the machine sleeps, or if the clock is set. */
  readonly wallDeadline: number;
}

/** Times of the wall clock are counted from the start of the process, because V8 allocates an object for each large number. */
const WALL_BASE = systemClock.wallNow();

const wallAt = (clock: Clock): number => clock.wallNow() - WALL_BASE;

/** A moment on both clocks, such as that before a command is sent. */
export interface Moment {
  readonly at: number;
  readonly wallAt: number;
}

export const moment = (clock: Clock): Moment => ({ at: clock.now(), wallAt: wallAt(clock) });

/** The lease that a reply proves: the server had `remainingMs` left some time after `sent`. */
export function leaseFrom(sent: Moment, remainingMs: number): Lease {
  const provenMs = remainingMs * (1 - CLOCK_DRIFT) - ROUNDING_MS;
  // Whole milliseconds: V8 allocates an object for each fraction, and thousands of leases may be held.
  return { deadline: Math.floor(sent.at + provenMs), wallDeadline: Math.floor(sent.wallAt + provenMs) };
}

/**
 * The lease of a grant that the store pushed. It was made after the last command that found the lock busy, which was sent
 * at `sent`. The server's clock proves nothing: it may have been set, or belong to another server. The lease never lasts
 * longer than if it had begun on arrival. Each clock is evaluated separately: after a sleep of the machine, the clock that
 * stopped proves nothing about the other.
 */
export const leaseOfPush = (remainingMs: number, sent: Moment, receivedAt: Moment): Lease =>
  ofEachClock(Math.min, leaseFrom(sent, remainingMs), leaseFrom(receivedAt, remainingMs));

/**
 * The lease that two proofs of one hold prove together: the later deadline on each clock. Each proof is correct by a clock that
 * neither stopped nor was set back since, so both together are correct by that clock. The other clock can only shorten
 * what `remainingOf` returns.
 */
export const longer = (a: Lease, b: Lease): Lease => ofEachClock(Math.max, a, b);

const ofEachClock = (choose: (a: number, b: number) => number, a: Lease, b: Lease): Lease => ({
  deadline: choose(a.deadline, b.deadline),
  wallDeadline: choose(a.wallDeadline, b.wallDeadline),
});

/** The rest of a lease, in milliseconds, by the more pessimistic clock; 0 if it is over. */
export const remainingOf = (lease: Lease, clock: Clock): number => remainingAt(lease, moment(clock));

/** The same at a moment that was already read: a grant needs it several times. */
export const remainingAt = ({ deadline, wallDeadline }: Lease, now: Moment): number =>
  Math.max(0, Math.min(deadline - now.at, wallDeadline - now.wallAt));
