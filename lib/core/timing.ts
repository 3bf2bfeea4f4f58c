/** Every delay, limit and retry of the core, with its reason. All are in milliseconds unless they say otherwise. */

// --- Leases ---

/** The share of a lease by which the clocks of two hosts may drift apart. */
export const CLOCK_DRIFT = 0.01;

/** What a late timer and a rounding may cost. */
export const ROUNDING_MS = 2;

/** A lease is renewed when a third of it has passed, which leaves time for two more tries. */
export const RENEWALS_PER_LEASE = 3;

/** When to try a renewal again that had no answer: soon, and sooner towards the end of what is proven. */
export const renewRetryMs = (leaseMs: number, provenMs: number): number =>
  Math.max(20, Math.min(leaseMs / 20, provenMs / 3, 1_000));

/**
 * How long one renewal may take. When little of the lease is proven: half of that, so that there is time for another try.
 * Rounded to steps of 100 ms, so that locks with similar leases are renewed by one command.
 */
export function renewTimeoutMs(leaseMs: number, provenMs: number): number {
  const usualMs = commandTimeoutMs(leaseMs);
  const halfMs = provenMs / 2;
  return halfMs >= usualMs ? usualMs : Math.max(Math.floor(halfMs / 100) * 100, 100);
}

// --- Commands ---

/** How long one command for a lock with this lease may take before it is sent again. */
export const commandTimeoutMs = (leaseMs: number): number => Math.min(Math.max(leaseMs / 4, 100), 5_000);

/** A timer that runs later than this was held up: the event loop stood still. */
export const LATE_MS = 5;

/** After a standstill of the event loop, the answers that came meanwhile have been read within this time. */
export const READ_MS = 50;

// --- Acquiring ---

/** How long the first answer may take even if `waitMs` is shorter: one try needs an answer to be one. */
export const FIRST_ANSWER_MS = 1_000;

/** How long an attempt keeps its place in a queue without asking. A waiter that dies does not block others longer than that. */
export const waiterLeaseMs = (leaseMs: number): number => Math.max(500, Math.min(leaseMs, 6_000));

/**
 * When to ask again for a busy lock if no wake-up comes. Nobody reports that a holder has died. So the head of the queue
 * asks first, just after the lease may have ended, and the others soon after, in case the head has died, too. A third of
 * the waiter's lease at most, so that the place in the queue survives two failed tries.
 */
export function busyRetryMs({ retryMs, ahead }: { retryMs: number; ahead: number }, leaseMs: number): number {
  const pollMs = waiterLeaseMs(leaseMs) / 3;
  return retryMs > 0 ? Math.min(pollMs, retryMs + ROUNDING_MS + Math.min(ahead, 100)) : pollMs;
}

/** After split votes of a quorum: the store's own random pause, longer with each split in a row. */
export const splitRetryMs = (retryMs: number, splits: number): number => retryMs * Math.min(splits, 8);

/** After an acquire that failed: longer each time, but a store that is back is noticed within half a second. */
export const failureRetryMs = (failures: number): number => jittered(Math.min(20 * 2 ** failures, 500));

/** A consumer that awaits a call of the lock that its own iteration holds stands still for this long; any other moves on. */
export const STANDSTILL_MS = 500;

// --- Releasing ---

/** How long a release may keep its caller waiting. It goes on in the background until the lease is over. */
export const RELEASE_PATIENCE_MS = 1_000;

/** How long the last releases may take at a shutdown if the holders have used up all of its time. */
export const LAST_RELEASES_MS = 250;

/** How many releases are tried again at a time: all of an outage at once would be too much for a Redis that is just back. */
export const RELEASES_AT_A_TIME = 100;

/** The pause before the next round of releases; it grows with each round in a row that had no answer. */
export const releaseRetryMs = (silentRounds: number): number => jittered(Math.min(50 * 2 ** silentRounds, 1_000));

// --- Reporting ---

/** How many log lines of one kind are written in full within `LOG_WINDOW_MS`; the others are counted. */
export const LINES_IN_FULL = 10;

/** An outage concerns all locks at once: for how long its lines are counted before one line tells how many there were. */
export const LOG_WINDOW_MS = 10_000;

/** Between a half and all of `ms`: processes that failed together do not try again together. */
const jittered = (ms: number): number => ms * (0.5 + Math.random() / 2);
