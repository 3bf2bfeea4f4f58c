import { type Randomness } from './randomness.js';

/** Every delay, limit and retry of the core, with its reason. In milliseconds unless noted. */

// --- Leases ---

/** The assumed clock drift between two hosts, as a share of the lease. */
export const CLOCK_DRIFT = 0.01;

/** The time that a late timer and rounding may take from a lease. */
export const ROUNDING_MS = 2;

/** A lease is renewed after a third of it, which leaves time for two more tries. */
export const RENEWALS_PER_LEASE = 3;

/**
 * Work that is due in `delayMs` may be done this much earlier, so that thousands of locks share timers and commands: at most
 * 4 % of the delay. It is a power of two, so that different leases share them. (From
 * 600 days on, 32 bits would not suffice; no lease lasts longer than 30.)
 */
export const turnMs = (delayMs: number): number => 1 << (31 - Math.clz32(Math.max(delayMs / 25, 1)));

/** The number of locks that are renewed in one turn of the event loop; other due locks follow in the next turns. */
export const RENEWALS_AT_A_TIME = 256;

/** The pause before a renewal without an answer is tried again: short, and shorter towards the end of the proven lease. */
export const renewRetryMs = (leaseMs: number, provenMs: number): number =>
  Math.max(20, Math.min(leaseMs / 20, provenMs / 3, 1_000));

/**
 * How long one renewal may take: at most half of the proven lease, which leaves time for another try. Rounded to steps
 * of 100 ms, so that locks with similar leases are renewed by one command.
 */
export function renewTimeoutMs(leaseMs: number, provenMs: number): number {
  const usualMs = commandTimeoutMs(leaseMs);
  const halfMs = provenMs / 2;
  return halfMs >= usualMs ? usualMs : Math.max(Math.floor(halfMs / 100) * 100, 100);
}

/**
 * The minimum proven rest of a pushed grant's lease on arrival. Half of it leaves time for the first renewal, which follows after
 * a third of that. With less, a short lease may end before that renewal is answered; then the attempt asks for its grant, which
 * also costs one command, and gets the full lease.
 */
export const leastProvenOfPushMs = (remainingMs: number): number => remainingMs / 2;

/** The age from which a handle is watched for garbage collection: most handles are released sooner. */
export const WATCH_HANDLES_AFTER_MS = 100;

// --- Commands ---

/**
 * How long one command for a lock with this lease may take before it is sent again: a quarter, so that a lost command leaves
 * time for others. At least 100 ms for a slow network, and at most 5 s, so that a dead connection is noticed soon.
 */
export const commandTimeoutMs = (leaseMs: number): number => Math.min(Math.max(leaseMs / 4, 100), 5_000);

/** A timer that fires later than this shows that the event loop was blocked. */
export const LATE_MS = 5;

/** After the event loop was blocked, the answers that have arrived are read within this time. */
export const READ_MS = 50;

/** A timer that is this late was dropped, and is set again; this is harmless if the event loop was only blocked. */
export const DROPPED_AFTER_MS = 1_000;

// --- Acquiring ---

/**
 * How long after a grant a process may hand a lock on among its own callers before others get it: long compared to a round trip, so
 * short work costs few commands, and short compared to the usual wait of another process.
 */
export const HAND_ON_MS = 5;

/** How long the first answer may take even if `waitMs` is shorter: without an answer, the lock was not tried. */
export const FIRST_ANSWER_MS = 1_000;

/**
 * How long the store keeps the place of an attempt in a queue without a command of it: a dead waiter blocks others for at most
 * this time. At least 500 ms, so that a slow command does not lose the place, and at most 6 s, whatever the lease is.
 */
export const waiterLeaseMs = (leaseMs: number): number => Math.max(500, Math.min(leaseMs, 6_000));

/**
 * The pause before a busy lock is requested again without a wake-up. The death of a holder is not reported, so the head of the
 * queue tries first, just after the lease may have ended, and the others soon after, in case the head has also died.
 * At most a third of the waiter's lease, so that the place in the queue survives two failed tries.
 */
export function busyRetryMs({ retryMs, ahead }: { retryMs: number; ahead: number }, leaseMs: number): number {
  const pollMs = waiterLeaseMs(leaseMs) / 3;
  return retryMs > 0 ? Math.min(pollMs, retryMs + ROUNDING_MS + Math.min(ahead, 100)) : pollMs;
}

/** The pause after split votes of a quorum: the store's own random one, longer with each split in a row. */
export const splitRetryMs = (retryMs: number, splits: number): number => retryMs * Math.min(splits, 8);

/** The pause after a failed acquire: longer each time, but at most half a second, so that a recovered store is noticed soon. */
export const failureRetryMs = (failures: number, random: Randomness): number =>
  jittered(Math.min(20 * 2 ** failures, 500), random);

// --- Waiting without taking ---

/** The pause before the state of a lock is read again, after `looks` reads that found it held: longer each time, up to a second. */
export const lookMs = (looks: number, random: Randomness): number =>
  jittered(Math.min(50 * 1.5 ** looks, 1_000), random);

/** The minimum pause between two reads when an event in this process triggers the second one. */
export const LOOK_AGAIN_MS = 20;

// --- Releasing ---

/** How long a release may keep its caller waiting. It continues in the background until the lease is over. */
export const RELEASE_PATIENCE_MS = 1_000;

/** How long the last releases of a shutdown may take even if the holders have used up `drainMs`. */
export const LAST_RELEASES_MS = 250;

/** The number of releases that are retried at a time: all of an outage at once would overload a Redis that has just come back. */
export const RELEASES_AT_A_TIME = 100;

/** The pause before the next round of releases: longer with each round in a row that had no answer, up to a second. */
export const releaseRetryMs = (silentRounds: number, random: Randomness): number =>
  jittered(Math.min(50 * 2 ** silentRounds, 1_000), random);

// --- Leading ---

/** How long a leader that resigned or was deposed lets others go first: longer than the poll of a waiting instance of a quorum. */
export const OTHERS_FIRST_MS = 1_000;

/** A campaign that fails later than this was set up correctly: an error that ends it comes with the answer to its first command. */
export const ANSWERED_WITHIN_MS = 5_000;

/** The pause before an instance campaigns again after an error that will not resolve by itself, such as a wrong password. */
export const campaignRetryMs = (failures: number, random: Randomness): number =>
  jittered(Math.min(500 * 2 ** failures, 30_000), random);

// --- The history ---

/** How long an event waits until it is written to the history with later ones: long compared to a command, short for a reader. */
export const HISTORY_PAUSE_MS = 100;

/** The maximum number of entries per command. Such a command blocks Redis for some hundred microseconds. */
export const MAX_HISTORY_BATCH = 200;

/** The maximum total length of the entries of one command, in characters, unless one entry alone is longer. */
export const MAX_HISTORY_BATCH_CHARS = 100_000;

/** The maximum number of entries that wait in memory, without those that are being written. */
export const MAX_HISTORY_QUEUE = 2_000;

/** The maximum total length of their texts, in characters: some two megabytes. */
export const MAX_HISTORY_QUEUE_CHARS = 1_000_000;

/** The pause before entries that could not be written are tried again. */
export const HISTORY_RETRY_MS = 1_000;

/** How long a reader of the history waits for the entries of its own process to be written. */
export const HISTORY_FLUSH_MS = 1_000;

/** How long the end of the app waits for the last entries: they do not justify a longer delay. */
export const LAST_HISTORY_MS = 250;

// --- Reporting ---

/** The number of log lines of one kind that are written in full within `LOG_WINDOW_MS`; the others are counted. */
export const LINES_IN_FULL = 10;

/** How long further lines are counted before one line reports their number: an outage affects all locks at once. */
export const LOG_WINDOW_MS = 10_000;

/** A random time from half of `ms` to `ms`: processes that failed together do not retry together. */
const jittered = (ms: number, random: Randomness): number => ms * (0.5 + random.fraction() / 2);
