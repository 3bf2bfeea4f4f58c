import { type Randomness } from './randomness.js';

/** Every delay, limit and retry of the core, with its reason. All are in milliseconds unless they say otherwise. */

// --- Leases ---

/** The share of a lease by which the clocks of two hosts may drift apart. */
export const CLOCK_DRIFT = 0.01;

/** How much a late timer and rounding may take off a lease. */
export const ROUNDING_MS = 2;

/** A lease is renewed after a third of it, which leaves time for two more tries. */
export const RENEWALS_PER_LEASE = 3;

/**
 * What is due in `delayMs` may be done this much earlier, so that locks by the thousand share timers and commands: by at most
 * 4 % of the delay. It is a power of two, so that different leases share them, too. (From
 * 600 days on, 32 bits would not suffice; no lease lasts longer than 30.)
 */
export const turnMs = (delayMs: number): number => 1 << (31 - Math.clz32(Math.max(delayMs / 25, 1)));

/** How many locks are renewed in one turn of the event loop; the others that are due follow in the next turns. */
export const RENEWALS_AT_A_TIME = 256;

/** The pause before a renewal without an answer is tried again: short, and shorter towards the end of the proven lease. */
export const renewRetryMs = (leaseMs: number, provenMs: number): number =>
  Math.max(20, Math.min(leaseMs / 20, provenMs / 3, 1_000));

/**
 * How long one renewal may take: at most half of the proven lease, so that there is time for another try. Rounded to steps
 * of 100 ms, so that locks with similar leases are renewed by one command.
 */
export function renewTimeoutMs(leaseMs: number, provenMs: number): number {
  const usualMs = commandTimeoutMs(leaseMs);
  const halfMs = provenMs / 2;
  return halfMs >= usualMs ? usualMs : Math.max(Math.floor(halfMs / 100) * 100, 100);
}

/**
 * How much of the lease of a pushed grant has to be proven when it arrives. Half of it leaves time for the first renewal,
 * which follows after a third of that. With less, a short lease may end before that renewal is answered; the attempt asks
 * for its grant instead, with one command as well, and gets the full lease.
 */
export const leastProvenOfPushMs = (remainingMs: number): number => remainingMs / 2;

/** How long a handle may live before it is noticed that it was dropped: most are released sooner, and need not be watched. */
export const WATCH_HANDLES_AFTER_MS = 100;

// --- Commands ---

/**
 * How long one command for a lock with this lease may take before it is sent again: a quarter, so that a lost command leaves
 * time for others. At least 100 ms for a slow network, and at most 5 s, so that a dead connection is noticed soon.
 */
export const commandTimeoutMs = (leaseMs: number): number => Math.min(Math.max(leaseMs / 4, 100), 5_000);

/** A timer that fires later than this was held up: the event loop was blocked. */
export const LATE_MS = 5;

/** After the event loop was blocked, the answers that have arrived are read within this time. */
export const READ_MS = 50;

/** A timer that is this late was dropped, and is set again; if the event loop was blocked, that does no harm. */
export const DROPPED_AFTER_MS = 1_000;

// --- Acquiring ---

/**
 * How long after a grant a process may hand a lock on among its own callers before others get it: long beside a round trip, so that
 * short work costs few commands, and short beside what another process waits for anyway.
 */
export const HAND_ON_MS = 5;

/** How long the first answer may take even if `waitMs` is shorter: without an answer, the lock has not been tried. */
export const FIRST_ANSWER_MS = 1_000;

/**
 * How long the store keeps the place of an attempt in a queue without hearing of it: a dead waiter blocks others for no
 * longer. At least 500 ms, so that a slow command does not lose the place, and at most 6 s, however long the lease is.
 */
export const waiterLeaseMs = (leaseMs: number): number => Math.max(500, Math.min(leaseMs, 6_000));

/**
 * The pause before a busy lock is requested again if no wake-up comes. Nobody reports that a holder has died, so the head
 * of the queue tries first, just after the lease may have ended, and the others soon after, in case the head has died, too.
 * At most a third of the waiter's lease, so that the place in the queue survives two failed tries.
 */
export function busyRetryMs({ retryMs, ahead }: { retryMs: number; ahead: number }, leaseMs: number): number {
  const pollMs = waiterLeaseMs(leaseMs) / 3;
  return retryMs > 0 ? Math.min(pollMs, retryMs + ROUNDING_MS + Math.min(ahead, 100)) : pollMs;
}

/** The pause after split votes of a quorum: the store's own random one, longer with each split in a row. */
export const splitRetryMs = (retryMs: number, splits: number): number => retryMs * Math.min(splits, 8);

/** The pause after a failed acquire: longer each time, but a store that is back is noticed within half a second. */
export const failureRetryMs = (failures: number, random: Randomness): number =>
  jittered(Math.min(20 * 2 ** failures, 500), random);

// --- Waiting without taking ---

/** The pause before a lock is looked at again, after `looks` looks that found it held: longer each time, up to a second. */
export const lookMs = (looks: number, random: Randomness): number =>
  jittered(Math.min(50 * 1.5 ** looks, 1_000), random);

/** How soon after a look another one may follow because something has happened in this process. */
export const LOOK_AGAIN_MS = 20;

// --- Releasing ---

/** How long a release may keep its caller waiting. It goes on in the background until the lease is over. */
export const RELEASE_PATIENCE_MS = 1_000;

/** How long the last releases of a shutdown may take even if the holders have used up `drainMs`. */
export const LAST_RELEASES_MS = 250;

/** How many releases are tried again at a time: all of an outage at once would be too much for a Redis that is just back. */
export const RELEASES_AT_A_TIME = 100;

/** The pause before the next round of releases: longer with each round in a row that had no answer, up to a second. */
export const releaseRetryMs = (silentRounds: number, random: Randomness): number =>
  jittered(Math.min(50 * 2 ** silentRounds, 1_000), random);

// --- Leading ---

/** How long a leader that resigned or was deposed lets others go first: longer than a waiting instance of a quorum takes to ask again. */
export const OTHERS_FIRST_MS = 1_000;

/** A campaign that fails later than this has waited well before: an error that ends it comes with an answer to its first command. */
export const ANSWERED_WITHIN_MS = 5_000;

/** The pause before an instance campaigns again after an error that does not go by itself, such as a wrong password. */
export const campaignRetryMs = (failures: number, random: Randomness): number =>
  jittered(Math.min(500 * 2 ** failures, 30_000), random);

// --- The history ---

/** How long an event waits until it is written to the history with those that follow: long beside a command, short for people. */
export const HISTORY_PAUSE_MS = 100;

/** How many entries are written by one command, for which Redis serves nobody else: some hundred microseconds. */
export const MAX_HISTORY_BATCH = 200;

/** How long the texts of the entries of one command may be together, in characters, unless one entry alone is longer. */
export const MAX_HISTORY_BATCH_CHARS = 100_000;

/** How many entries wait in memory at most, besides those that are being written. */
export const MAX_HISTORY_QUEUE = 2_000;

/** How long their texts may be together, in characters: some two megabytes. Keys and notes are of any length that locks may have. */
export const MAX_HISTORY_QUEUE_CHARS = 1_000_000;

/** The pause before entries that could not be written are tried again. */
export const HISTORY_RETRY_MS = 1_000;

/** How long a reader of the history waits for the entries of its own process to be written. */
export const HISTORY_FLUSH_MS = 1_000;

/** How long the end of the app waits for the last entries: they are not worth more. */
export const LAST_HISTORY_MS = 250;

// --- Reporting ---

/** How many log lines of one kind are written in full within `LOG_WINDOW_MS`; the others are counted. */
export const LINES_IN_FULL = 10;

/** How long further lines are counted before one line reports their number: an outage affects all locks at once. */
export const LOG_WINDOW_MS = 10_000;

/** From half of `ms` to all of it: processes that failed together do not try again together. */
const jittered = (ms: number, random: Randomness): number => ms * (0.5 + random.fraction() / 2);
