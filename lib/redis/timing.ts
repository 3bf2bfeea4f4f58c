import { MAX_HISTORY_ENTRIES } from '../core/history/history-entry.js';

/** The delays, limits and numbers of retries of the Redis store, each with its reason. Durations are in milliseconds. */

// Connections of our own

/** How long a host may take to accept a connection: ioredis would wait 10 s. The application may choose another limit. */
export const CONNECT_TIMEOUT_MS = 3_000;

/** The default of ioredis, which means that the application chose none. */
export const IOREDIS_CONNECT_TIMEOUT_MS = 10_000;

/** How long a sentinel may take to answer: without a limit, a silent one would be waited for indefinitely. */
export const SENTINEL_COMMAND_TIMEOUT_MS = 1_000;

/** How long a server may stay silent after it accepted a connection; ioredis has no limit for that. */
export const GREETING_MS = 2_000;

/** How long an orderly end of a socket may take before it is destroyed: an old connection must not delay a new one. */
export const DISCONNECT_TIMEOUT_MS = 100;

/** How long `close()` waits for the sockets to end: the end of an application must not depend on a silent server. */
export const CLOSE_TIMEOUT_MS = 500;

/** How often a cluster is asked which nodes it has: without commands, ioredis would never notice that one is gone. */
export const SLOTS_REFRESH_MS = 30_000;

/** The pause before the next connection, after `failures` failed ones: short, so that locks are back soon after Redis is. */
export const reconnectDelayMs = (failures: number): number => Math.min(50 * failures, 1_000);

/** The pause before a cluster is asked for its slots again, so that a failover does not cause a storm of questions. */
export const SLOTS_RETRY_MS = 100;

// The health of a connection

/** How many times its usual answer time a connection may stay silent before it counts as dead. */
export const SILENCE_FACTOR = 3;

/** The longest silence that is waited for, unless the command itself has more time. */
export const MAX_SILENCE_MS = 5_000;

/** How long a connection has to answer after a block of the event loop, at least: its command may have been written only then. */
export const AFTER_BLOCK_MS = 500;

/** The factor by which the usual answer time may grow per answer: a single slow answer says little about the network. */
export const ANSWER_TIME_GROWTH = 1.1;

/** How many connections in a row a command may lose, or fail to get, before it fails; its caller retries. */
export const MAX_CONNECTION_LOSSES = 2;

// Sentinels

/** How often a sentinel is pinged: an idle connection may be dead without an error. */
export const SENTINEL_PING_MS = 2_000;

/** How many sentinels are watched at most, however many they report; a group has three to five. */
export const MAX_SENTINELS = 10;

/** How often a sentinel that the application does not name is tried, about 90 s in all: it may be gone for good. */
export const MAX_SENTINEL_RETRIES = 100;

// Wake-ups

/** How long the server may take to answer the subscriber before the connection is replaced. */
export const SUBSCRIBER_ANSWER_MS = 2_000;

/** How often the subscriber checks that it is heard, while a call waits. */
export const SUBSCRIBER_CHECK_MS = 1_000;

/** How long after its last poll a waiting call still counts as waiting: a little more than two polls. */
export const WAITER_SEEN_MS = 5_000;

/** After this long without a move to another server, the subscriber moves at once. */
export const SUBSCRIBER_SETTLED_MS = 60_000;

/** The pause before the subscriber moves again, `moves` times in a row: two servers may name each other for a while. */
export const moveDelayMs = (moves: number): number => (moves === 0 ? 0 : Math.min(50 * 2 ** moves, 10_000));

// Commands

/** How long a command of an operator may take; no lease depends on it. */
export const OPERATOR_TIMEOUT_MS = 5_000;

/** How often `forceRelease` tries in all when the lock changes hands between its look and its command. */
export const MAX_REVOKE_TRIES = 3;

/** How often an acquire or a release is sent in a row while the server refuses it as late, or has more to do for it. */
export const MAX_SENT = 64;

/** How old an acquire may be when it arrives. Twice its time limit: the clock of the server is known only by estimate. */
export const maxAcquireAgeMs = (timeoutMs: number): number => 2 * timeoutMs;

/** How much faster our clock may run than that of a server, as a share of the time. */
export const CLOCK_DRIFT = 0.001;

/** How many operations travel in one command: Redis serves nobody else meanwhile. */
export const MAX_BATCH = 64;

/**
 * So many acquires and releases are sent before the turn is over: Redis does them while this process goes on. While commands are
 * under way, Redis has something to do, and fewer and longer commands cost both less.
 */
export const promptBatch = (underWay: number): number => Math.min(16 * 2 ** underWay, MAX_BATCH);

/** How long WAIT may take beyond its own timeout: the round trip. */
export const WAIT_ROUND_TRIP_MS = 1_000;

/** How many redirections are followed: a slot that has just moved, and moves on, needs no more. */
export const MAX_REDIRECTS = 4;

/** How many entries of the history one command looks at: Redis serves nobody else meanwhile. */
export const HISTORY_LOOKS = 500;

/** How long after an event its entry is looked for: the stream is in the order in which entries arrive. */
export const MAX_HISTORY_DELAY_MS = 10_000;

/** How many entries are looked at in all: as many as a history may have, and a few more. */
export const MAX_HISTORY_LOOKS = MAX_HISTORY_ENTRIES + 1_000;

/** How long a reader of the history may take in all, with up to two hundred commands: they usually take a second. */
export const MAX_HISTORY_READ_MS = 30_000;

// The quorum

/** How long the nodes are waited for: little compared to the lease, which runs from the first command on. */
export const voteTimeoutMs = (leaseMs: number, timeoutMs = Infinity): number =>
  Math.min(Math.max(leaseMs / 20, 100), 500, timeoutMs);

/** How much longer the nodes have when replicas confirm grants: a node may first have to confirm those of another lock. */
export const confirmExtraMs = (leaseMs: number, confirmMs: number): number =>
  Math.max(Math.min(2 * confirmMs, leaseMs - voteTimeoutMs(leaseMs)), 0);

/** How long the nodes are waited for by a command that only reads. */
export const QUORUM_READ_TIMEOUT_MS = 1_000;

/** How long a node may take to report its run id, its role or its time. */
export const NODE_INFO_TIMEOUT_MS = 1_000;

/** How soon a server is asked again for its role: it may be demoted or promoted while its connections stay. */
export const ROLE_RECHECK_MS = 2_000;

/** Calls that split the votes retry after a random time of up to this: several rounds long, so that one of them is first. */
export const MAX_SPLIT_BACKOFF_MS = 60;

/** How far the first node that reports a release is usually ahead of the others, at most. */
export const WAKE_UP_SPREAD_MS = 10;

/** For how many attempts a node remembers an acquire without an answer; one that arrives late is refused by its age, too. */
export const MAX_UNANSWERED = 1_000;
