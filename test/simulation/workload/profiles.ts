import { type FaultRates, type Profile } from './plan.js';

const CALM: Profile = {
  ms: 30_000,
  network: { delayMin: 0.1, delayMax: 6, resend: 0, resendMax: 0 },
  messages: { lost: 0, late: 0, lateMaxMs: 0 },
  drift: 0.0099,
  serverDrift: 0,
  servers: 1,
  topology: 'none',
  masters: 1,
  replicas: 0,
  minReplicas: 0,
  keys: ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'],
  skewMs: 0,
  maxLeaseMs: 10_000,
  shortLeases: true,
  rates: {},
  isCalm: true,
  shares: {},
  maxStopMs: 15_000,
  maxCutMs: 12_000,
};

const NETWORK: FaultRates = { reset: 4_000, cut: 9_000, deaf: 9_000, slow: 9_000 };
const PROCESSES: FaultRates = { setWall: 15_000, stop: 7_000, sleep: 20_000, kill: 20_000, shutdown: 30_000 };
const SERVER: FaultRates = { crash: 15_000, stall: 10_000, flushScripts: 10_000, reset: 10_000 };

const BAD_NETWORK: Partial<Profile> = {
  isCalm: false,
  network: { delayMin: 0.1, delayMax: 6, resend: 0.03, resendMax: 800 },
  messages: { lost: 0.05, late: 0.05, lateMaxMs: 4_000 },
};

const QUORUM: Partial<Profile> = { servers: 3, skewMs: 3_000, maxLeaseMs: 3_000, shortLeases: false };

const REPLICAS: Partial<Profile> = { topology: 'address', replicas: 2, shortLeases: false };
const SENTINEL: Partial<Profile> = { topology: 'sentinel', replicas: 2, shortLeases: false };

/** Two of the keys are in one slot. */
const CLUSTER: Partial<Profile> = {
  topology: 'cluster',
  masters: 3,
  replicas: 1,
  keys: ['k9', 'a', 'k2390', 'd'],
  shortLeases: false,
};

const TURNS: Partial<Profile> = { shares: { turns: 0.8 }, shortLeases: false };

const TRANSFERS: Partial<Profile> = { shares: { transfers: 0.4 }, shortLeases: false };

const SEMAPHORES: Partial<Profile> = { shares: { semaphores: 0.8 }, shortLeases: false };

const LEADERS: Partial<Profile> = { shares: { leaders: 0.8 }, shortLeases: false };

const FAILOVERS: FaultRates = { failover: 12_000, partitionReplica: 6_000 };

const profile = (...parts: readonly Partial<Profile>[]): Profile => Object.assign({}, CALM, ...parts);
const faults = (...rates: readonly FaultRates[]): Partial<Profile> => ({
  isCalm: false,
  rates: Object.assign({}, ...rates),
});

/** By name. Each seed belongs to one of them, in turn. */
export const PROFILES: Readonly<Record<string, Profile>> = {
  calm: CALM,
  drift: profile({
    drift: 0.0049,
    serverDrift: 0.0049,
    network: { delayMin: 0.5, delayMax: 25, resend: 0, resendMax: 0 },
    shortLeases: false,
  }),
  silent: profile({ messages: { lost: 1, late: 0, lateMaxMs: 0 }, shortLeases: false }),
  network: profile(BAD_NETWORK, faults(NETWORK)),
  processes: profile(faults(PROCESSES)),
  both: profile(BAD_NETWORK, faults(NETWORK, PROCESSES)),
  server: profile(faults(SERVER, { stepClock: 15_000, busyServer: 10_000 })),
  errors: profile(faults({ refuse: 6_000, foreignKey: 12_000, flushScripts: 5_000, crash: 20_000 })),
  operator: profile(BAD_NETWORK, faults({ revoke: 1_500 })),
  wall: profile(faults({ setWall: 3_000, reset: 8_000, stop: 15_000 })),
  given: profile(BAD_NETWORK, faults(NETWORK, { closeGiven: 10_000, stall: 10_000 })),
  long: profile({ maxLeaseMs: 40_000, shortLeases: false, ms: 60_000 }),
  longNetwork: profile(BAD_NETWORK, faults(NETWORK, SERVER), { maxLeaseMs: 40_000, ms: 60_000 }),
  longErrors: profile(faults({ refuse: 12_000 }), { maxLeaseMs: 40_000, shortLeases: false, ms: 60_000 }),
  chaos: profile(
    BAD_NETWORK,
    faults(NETWORK, PROCESSES, SERVER, { revoke: 15_000, refuse: 20_000, stepClock: 30_000 }),
  ),

  owners: profile({ shares: { owner: 0.8 }, shortLeases: false }),
  nested: profile({ shares: { nested: 0.8 }, shortLeases: false }),
  jobs: profile(faults(PROCESSES), { shares: { jobs: 1 } }),
  kept: profile(faults({ kill: 4_000 }), { shares: { kept: 0.4 } }),
  sleeps: profile(faults({ sleep: 1_500 }), { shortLeases: false }),
  turns: profile(TURNS),
  turnsNetwork: profile(TURNS, BAD_NETWORK, faults(NETWORK, { revoke: 5_000 })),
  turnsProcesses: profile(TURNS, faults(PROCESSES, { sleep: 3_000, stepClock: 5_000, revoke: 5_000 })),
  turnsServer: profile(
    TURNS,
    BAD_NETWORK,
    faults(SERVER, { stepClock: 5_000, refuse: 6_000, foreignKey: 6_000, deleteKey: 3_000 }),
  ),
  turnsSentinel: profile(SENTINEL, TURNS, faults(FAILOVERS, { stopSentinel: 8_000, kill: 10_000 })),
  turnsCluster: profile(CLUSTER, TURNS, faults(FAILOVERS, PROCESSES, { moveSlot: 5_000 })),
  several: profile(faults({ refuse: 6_000, stepClock: 6_000, foreignKey: 3_000 }), { shares: { severalKeys: 0.8 } }),

  quorum: profile(QUORUM),
  quorumNetwork: profile(QUORUM, BAD_NETWORK, faults(NETWORK, { crash: 8_000, reset: 3_000 })),
  quorum5: profile(QUORUM, BAD_NETWORK, faults(NETWORK, PROCESSES, { crash: 5_000 }), { servers: 5, skewMs: 0 }),
  quorumServers: profile(QUORUM, faults(SERVER, PROCESSES), { skewMs: 0 }),

  replicas: profile(REPLICAS, { minReplicas: 2 }),
  replicasFailover: profile(REPLICAS, faults(FAILOVERS)),
  replicasConfirm: profile(REPLICAS, faults(FAILOVERS), { minReplicas: 2 }),
  replicasNetwork: profile(REPLICAS, BAD_NETWORK, faults(FAILOVERS, NETWORK, PROCESSES, { crash: 15_000 }), {
    minReplicas: 1,
  }),
  sentinel: profile(SENTINEL),
  sentinelFailover: profile(SENTINEL, faults(FAILOVERS, { stopSentinel: 8_000 })),
  sentinelConfirm: profile(SENTINEL, faults(FAILOVERS, { stopSentinel: 8_000 }), { minReplicas: 2 }),
  cluster: profile(CLUSTER),
  clusterSlots: profile(CLUSTER, faults({ moveSlot: 1_500 })),
  clusterFailover: profile(CLUSTER, faults(FAILOVERS, { moveSlot: 5_000 })),
  clusterConfirm: profile(CLUSTER, faults(FAILOVERS, { moveSlot: 5_000 }), { minReplicas: 1 }),
  clusterNetwork: profile(
    CLUSTER,
    BAD_NETWORK,
    faults(FAILOVERS, NETWORK, PROCESSES, { moveSlot: 5_000, crash: 15_000, flushScripts: 10_000 }),
  ),
  sentinelNetwork: profile(
    SENTINEL,
    BAD_NETWORK,
    faults(FAILOVERS, NETWORK, PROCESSES, { stopSentinel: 8_000, crash: 15_000, flushScripts: 10_000 }),
  ),

  transfers: profile(TRANSFERS),
  transfersTurns: profile(TURNS, { shares: { turns: 0.8, transfers: 0.4 } }),
  transfersNetwork: profile(TRANSFERS, BAD_NETWORK, faults(NETWORK, { revoke: 5_000 })),
  transfersProcesses: profile(TRANSFERS, faults(PROCESSES, { sleep: 5_000 })),
  transfersQuorum: profile(QUORUM, TRANSFERS, BAD_NETWORK, faults(NETWORK, { slow: 700 })),

  semaphores: profile(SEMAPHORES),
  semaphoresNetwork: profile(SEMAPHORES, BAD_NETWORK, faults(NETWORK, { revoke: 5_000 })),
  semaphoresProcesses: profile(SEMAPHORES, faults(PROCESSES, { sleep: 5_000 })),

  leaders: profile(LEADERS),
  leadersNetwork: profile(LEADERS, BAD_NETWORK, faults(NETWORK)),
  leadersProcesses: profile(LEADERS, faults(PROCESSES, { sleep: 5_000, kill: 8_000 })),
  leadersQuorum: profile(QUORUM, LEADERS, BAD_NETWORK, faults(NETWORK, PROCESSES, { crash: 8_000 }), { skewMs: 0 }),
};
