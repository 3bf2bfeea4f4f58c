// The requests of a worker's calls. All calls for the keys of one kind have the same form, so that the promise for them is clear.

import { DECORATED_OPTIONS } from './decorated-options.mjs';

const LEASES = [300, 500, 1_000, 3_000];

const PERMITS = 2;

/** How often calls ask for each order. */
const FAIR = [false, 'strict', 'strict', ...Array(7).fill(true)];

/** The decorated methods of the client; their options are those of their class. */
const decorated = (via, key, options) => (random) => ({
  keys: [`${key}${random.between(0, 2)}`],
  via,
  ...DECORATED_OPTIONS,
  ...options,
  abortAfterMs: undefined,
  fair: true,
});
const DECORATED = [
  decorated('write', 'dw'),
  decorated('read', 'dr', { mode: 'read' }),
  decorated('writeOfRead', 'dr'),
  decorated('iterable', 'di'),
  decorated('observable', 'do'),
];

/** Each kind makes the keys and the options of one call. */
const KINDS = {
  exclusive: (random) => ({ keys: [`x${random.between(0, 2)}`], isFenced: true }),
  /** Callers of one process that come together. They work for a moment, so that one grant in Redis may serve some of them. */
  crowd: (random) => ({
    keys: ['crowd'],
    isFenced: true,
    isShort: true,
    callers: random.between(2, 6),
    leaseMs: 1_000,
  }),
  readWrite: (random) => ({
    keys: [`rw${random.between(0, 1)}`],
    mode: random.chance(0.6) ? 'read' : 'write',
    downgrades: random.chance(0.3),
  }),
  permits: () => ({ keys: ['permits'], mode: 'read', permits: PERMITS }),
  several: (random) => ({ keys: random.pick([['m0', 'm1'], ['m1', 'm2'], ['m2', 'm0'], ['m1'], ['m2']]) }),
  owner: (random) => ({ keys: ['owned'], owner: random.pick(['alice', 'bob']) }),
  /** A new key every few seconds, which two workers may ask for. */
  fresh: (random) => ({ keys: [`fresh:${Math.floor(Date.now() / 5_000)}:${random.between(0, 49)}`] }),
  decorated: (random) => random.pick(DECORATED)(random),
  limited: decorated('limited', 'dl', { mode: 'read', permits: PERMITS }),
};

const FULL = ['exclusive', 'exclusive', 'exclusive', 'crowd', 'readWrite', 'readWrite', 'permits', 'several', 'owner'];
/** A quorum has no semaphores. */
const QUORUM = ['exclusive', 'exclusive', 'readWrite', 'several', 'owner'];
const FOR_SOAKS = ['fresh', 'fresh', 'fresh', 'fresh', 'decorated', 'decorated'];

/** How often a topology has each kind. */
const WORKLOADS = {
  full: FULL,
  quorum: QUORUM,
  /** With a growing number of keys, and with decorators: for soaks. */
  soak: [...FULL, ...FOR_SOAKS, 'limited'],
  quorumSoak: [...QUORUM, ...FOR_SOAKS],
  /** What every client can do. */
  peers: ['exclusive'],
};

/** The next call of a lane. */
export function nextCall(random, workload) {
  const call = { mode: 'write', ...KINDS[random.pick(WORKLOADS[workload])](random) };
  return {
    leaseMs: random.pick(LEASES),
    waitMs: random.chance(0.1) ? 0 : random.between(200, 6_000),
    isNested: random.chance(0.15),
    abortAfterMs: random.chance(0.05) ? random.between(0, 300) : undefined,
    // One Redis has an order of arrival; a quorum refuses to promise it.
    fair: WORKLOADS[workload].includes('permits') ? random.pick(FAIR) : false,
    callers: 1,
    ...call,
  };
}

/** How long the work of a call takes: mostly a moment, sometimes so long that the lease must be renewed. */
export function workMs(random, { leaseMs, isShort }) {
  if (random.chance(0.02)) return Math.min(random.between(leaseMs, 2 * leaseMs), 2_500);
  if (isShort) return random.between(0, 2);
  return random.chance(0.2) ? random.between(20, 150) : random.between(0, 20);
}
