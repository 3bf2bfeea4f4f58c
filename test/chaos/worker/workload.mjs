// What the calls of a worker ask for. The keys of one kind are asked for in one way, so that what they promise is plain.

const LEASES = [300, 500, 1_000, 3_000];

const PERMITS = 2;

/** Each kind makes the keys and the options of one call. */
const KINDS = {
  exclusive: (random) => ({ keys: [`x${random.between(0, 2)}`], isFenced: true }),
  readWrite: (random) => ({
    keys: [`rw${random.between(0, 1)}`],
    mode: random.chance(0.6) ? 'read' : 'write',
    downgrades: random.chance(0.3),
  }),
  permits: () => ({ keys: ['permits'], mode: 'read', permits: PERMITS }),
  several: (random) => ({ keys: random.pick([['m0', 'm1'], ['m1', 'm2'], ['m2', 'm0'], ['m1'], ['m2']]) }),
  owner: (random) => ({ keys: ['owned'], owner: random.pick(['alice', 'bob']) }),
};

/** How often a topology has each kind. A quorum has no semaphores. */
const WORKLOADS = {
  full: ['exclusive', 'exclusive', 'exclusive', 'readWrite', 'readWrite', 'permits', 'several', 'owner'],
  quorum: ['exclusive', 'exclusive', 'readWrite', 'several', 'owner'],
  /** What every client can do. */
  peers: ['exclusive'],
};

/** The next call of a lane. */
export function nextCall(random, workload) {
  const call = { mode: 'write', ...KINDS[random.pick(WORKLOADS[workload])](random) };
  return {
    ...call,
    leaseMs: random.pick(LEASES),
    waitMs: random.chance(0.1) ? 0 : random.between(200, 6_000),
    isNested: random.chance(0.15),
    abortAfterMs: random.chance(0.05) ? random.between(0, 300) : undefined,
    unfair: workload === 'full' && random.chance(0.1),
  };
}

/** How long the work of a call takes: mostly a moment, sometimes so long that the lease must be renewed. */
export function workMs(random, { leaseMs }) {
  if (random.chance(0.02)) return Math.min(random.between(leaseMs, 2 * leaseMs), 2_500);
  return random.chance(0.2) ? random.between(20, 150) : random.between(0, 20);
}
