import { MAX_HISTORY_ENTRIES } from '../core/history/history-entry.js';

/** The delays, limits and numbers of retries of the Redis store, each with its reason. Durations are in milliseconds. */

// Our own connections

/** How long a host may take to accept a connection: ioredis would wait 10 s. The application may choose another limit. */
export const CONNECT_TIMEOUT_MS = 3_000;

/** Below the longest timer of Node, by more than the connection adds to a time limit; a longer timer fires at once. */
export const MAX_LIMIT_MS = 2_000_000_000;

/**
 * A duration that an application has chosen. `null`, 0 and Infinity mean no limit: a silent host would be waited for indefinitely; below
 * 0, there would be no pause.
 */
export const chosenMs = (chosen: number | null | undefined, otherwise: number): number =>
  chosen && chosen > 0 && chosen !== Infinity ? Math.min(chosen, MAX_LIMIT_MS) : otherwise;

/** The default of ioredis, which means that the application has not set one. */
export const IOREDIS_CONNECT_TIMEOUT_MS = 10_000;

/** How long a sentinel may take to answer: without a limit, the client would wait for a silent one indefinitely. */
export const SENTINEL_COMMAND_TIMEOUT_MS = 1_000;

/** How long a server may stay silent after it accepted a connection; ioredis has no limit for that. */
export const GREETING_MS = 2_000;

/** How often a server is asked whether it has loaded its data: ioredis would wait up to 10 s, longer than the connection lasts. */
export const LOADING_RETRY_MS = 200;

/** How long an orderly end of a socket may take before it is destroyed: an old connection must not delay a new one. */
export const DISCONNECT_TIMEOUT_MS = 100;

/** How long `close()` waits for the sockets to end: the end of an application must not depend on a silent server. */
export const CLOSE_TIMEOUT_MS = 500;

/** How often a cluster is asked which nodes it has: without commands, ioredis would never notice that one is gone. */
export const SLOTS_REFRESH_MS = 30_000;

/** The pause before the next connection, after `failures` failed ones: short, so that locks work again soon after Redis does. */
export const reconnectDelayMs = (failures: number): number => Math.min(50 * failures, 1_000);

/** The pause before a cluster is asked for its slots again, so that a failover does not cause a storm of requests. */
export const SLOTS_RETRY_MS = 100;

// The health of a connection

/** The multiple of the usual answer time after which a silent connection counts as dead. */
export const SILENCE_FACTOR = 3;

/** The longest accepted silence, unless the command itself has more time. */
export const MAX_SILENCE_MS = 5_000;

/** The minimum time to answer after a block of the event loop: the command may have been written only then. */
export const AFTER_BLOCK_MS = 500;

/** The factor by which the usual answer time may grow per answer: a single slow answer proves little about the network. */
export const ANSWER_TIME_GROWTH = 1.1;

/** The number of connections in a row that a command may lose, or fail to get, before it fails; its caller retries. */
export const MAX_CONNECTION_LOSSES = 2;

// Sentinels

/** How often a sentinel is pinged: an idle connection may be dead without an error. */
export const SENTINEL_PING_MS = 2_000;

/** The maximum number of watched sentinels, whatever they report; a group has three to five. */
export const MAX_SENTINELS = 10;

/** How often a sentinel that the application does not name is tried, about 90 s in all: it may be gone permanently. */
export const MAX_SENTINEL_RETRIES = 100;

// Wake-ups

/** How long the server may take to answer the subscriber before the connection is replaced. */
export const SUBSCRIBER_ANSWER_MS = 2_000;

/** How often the subscriber checks that it receives messages, while a call waits. */
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

/** The number of tries of `forceRelease` when the lock changes hands between its read and its command. */
export const MAX_REVOKE_TRIES = 3;

/** The number of times in a row that an acquire or a release is sent while the server refuses it as late, or has not completed it. */
export const MAX_SENT = 64;

/** How old an acquire may be when it arrives. Twice its time limit: the clock of the server is only estimated. */
export const maxAcquireAgeMs = (timeoutMs: number): number => 2 * timeoutMs;

/** How much faster our clock may run than that of a server, as a share of the time. */
export const CLOCK_DRIFT = 0.001;

/** The maximum number of operations per command, which blocks Redis. */
export const MAX_BATCH = 64;

/**
 * This number of acquires and releases is sent before the turn is over: Redis executes them while this process continues. While commands
 * are in flight, Redis is busy, and fewer and longer commands cost both less.
 */
export const promptBatch = (underWay: number): number => Math.min(16 * 2 ** underWay, MAX_BATCH);

/** How long WAIT may take beyond its own timeout: the round trip. */
export const WAIT_ROUND_TRIP_MS = 1_000;

/** The maximum number of redirections: enough for a slot that has just moved, and moves again. */
export const MAX_REDIRECTS = 4;

/** The number of entries of the history that one command reads. It blocks Redis meanwhile. */
export const HISTORY_LOOKS = 500;

/** How long after an event its entry may arrive: the stream is in the order of arrival. */
export const MAX_HISTORY_DELAY_MS = 10_000;

/** The maximum number of entries that are read in total: the limit of a history, and a few more. */
export const MAX_HISTORY_LOOKS = MAX_HISTORY_ENTRIES + 1_000;

/** The total time limit of a reader of the history, with up to two hundred commands: they usually take a second. */
export const MAX_HISTORY_READ_MS = 30_000;

// The quorum

/** The time limit for the votes: short compared to the lease, which runs from the first command on. */
export const voteTimeoutMs = (leaseMs: number, timeoutMs = Infinity): number =>
  Math.min(Math.max(leaseMs / 20, 100), 500, timeoutMs);

/** The extension when replicas confirm grants: a node may first have to confirm those of another lock. */
export const confirmExtraMs = (leaseMs: number, confirmMs: number): number =>
  Math.max(Math.min(2 * confirmMs, leaseMs - voteTimeoutMs(leaseMs)), 0);

/** The time limit for the votes of a command that only reads. */
export const QUORUM_READ_TIMEOUT_MS = 1_000;

/** How long a node may take to report its run id, its role or its time. */
export const NODE_INFO_TIMEOUT_MS = 1_000;

/** How often a server is asked for its role: it may be demoted or promoted while its connections stay. */
export const ROLE_RECHECK_MS = 2_000;

/** Calls that split the votes retry after a random time of up to this: several rounds long, so that one of them is first. */
export const MAX_SPLIT_BACKOFF_MS = 60;

/** The usual maximum time between the first and the other nodes that report a release. */
export const WAKE_UP_SPREAD_MS = 10;

/** The maximum number of attempts whose unanswered acquire a node remembers; a late acquire is also refused by its age. */
export const MAX_UNANSWERED = 1_000;
