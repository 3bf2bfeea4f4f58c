import { type LockOptions } from '../../../lib/core/lock.options.js';
import { type NetworkSettings } from '../network/network.js';
import { type MessageFaults } from '../server/sim-server.js';
import { type FailoverPlan } from '../server/topology.js';

/** What a holder does with its lock, so long after it got it or after the step before. */
export interface HolderStep {
  readonly afterMs: number;
  readonly does: 'extend' | 'downgrade' | 'inspect' | 'isLocked';
  /** Of an extension. */
  readonly leaseMs?: number;
}

/** The fire of a job that a call claims. */
export interface PlannedClaim {
  readonly job: string;
  readonly kind: 'at' | 'slot' | 'gap';
  /** Of `at`: milliseconds of the world. */
  readonly ms: number;
  readonly rerunOnLoss: boolean;
  readonly ends: 'done' | 'failed';
}

/**
 * One public call, and what its holder does. `acquire` and `tryAcquire` return a handle, `withLock` runs work inside the lock,
 * `enter` is what a decorator does, `adopt` continues a lock that another call has transferred.
 */
export interface PlannedCall {
  readonly id: number;
  readonly slot: number;
  readonly at: number;
  readonly entry: 'acquire' | 'tryAcquire' | 'withLock' | 'enter' | 'adopt';
  readonly keys: readonly string[];
  readonly options: Omit<LockOptions, 'signal'>;
  readonly abortMs?: number;
  readonly holdMs: number;
  readonly steps: readonly HolderStep[];
  /** Whether the holder listens to `lock.signal`, and how long it works on after a loss. */
  readonly listens: boolean;
  readonly afterLossMs: number;
  /** The handle is dropped without a release. */
  readonly isDropped?: boolean;
  readonly claim?: PlannedClaim;
  /** The lock is transferred instead of released, and its text used by all of these. */
  readonly handsOn?: readonly PlannedUse[];
  /** Calls inside the work, all at once. */
  readonly nested?: readonly PlannedCall[];
  /** The work does not wait for them. */
  readonly isDetached?: boolean;
}

/** A use of the text of a transferred lock, so long after the transfer. */
export interface PlannedUse {
  readonly afterMs: number;
  readonly call: PlannedCall;
}

/** A campaign of each process of a slot for a lead, with a separate key. */
export interface PlannedLead {
  readonly slot: number;
  readonly key: string;
  readonly leaseMs: number;
  /** After so long, a leader resigns; without a number, it never does. */
  readonly termMs?: number | undefined;
  /** How long its work continues after a term. */
  readonly goesOnMs: number;
}

/** A place for processes: when one has ended, another may start in it. */
export interface PlannedSlot {
  /** How fast its clocks run. */
  readonly rate: number;
  /** The application passes in its own client. */
  readonly isGiven: boolean;
  /** The maximum number of its pending calls: when it is reached, it makes no other. */
  readonly atOnce: number;
  /** Whether it connects at the start, and not with the first call. */
  readonly opens: boolean;
}

interface FaultKinds {
  reset: { slot: number; pick: number; clientMs: number; serverMs: number };
  deaf: { slot: number; pick: number; up: boolean; down: boolean; ms: number };
  cut: { slot: number; server: number; up: boolean; down: boolean; ms: number };
  slow: { slot: number; server: number; slowMs: number; ms: number };
  stop: { slot: number; ms: number };
  sleep: { slot: number; ms: number };
  kill: { slot: number; ms: number };
  shutdown: { slot: number; drainMs: number; ms: number };
  setWall: { slot: number; ms: number };
  closeGiven: { slot: number };
  revoke: { slot: number; key: string };
  stall: { server: number; ms: number };
  busyServer: { server: number; costMs: number; ms: number };
  crash: { server: number; ms: number; losesData: boolean; isSilent: boolean; loadingMs: number };
  stepClock: { server: number; ms: number };
  flushScripts: { server: number };
  refuse: { server: number; text: string; ms: number };
  foreignKey: { server: number; key: string; ms: number };
  deleteKey: { server: number; key: string };
  failover: FailoverPlan;
  partitionReplica: { server: number; ms: number };
  stopSentinel: { sentinel: number; ms: number; isSilent: boolean };
  moveSlot: { key: string; to: number; ms: number };
}

export type FaultKind = keyof FaultKinds;
export type PlannedFault = {
  [Kind in FaultKind]: { readonly kind: Kind; readonly at: number } & FaultKinds[Kind];
}[FaultKind];
export type FaultOf<Kind extends FaultKind> = Extract<PlannedFault, { kind: Kind }>;

/** How often each kind of fault happens: the mean time between two, in milliseconds. */
type FaultRates = Partial<Record<FaultKind, number>>;

/**
 * The share of calls with an owner, with nested calls, with several keys, with `holdAtLeastMs`, of those to which others of
 * their process may hand the lock, of handles whose locks are transferred, and of calls that take permits of a semaphore; of
 * processes that campaign for a lead; and of runs with jobs.
 */
interface Shares {
  readonly owner?: number;
  readonly nested?: number;
  readonly severalKeys?: number;
  readonly kept?: number;
  readonly turns?: number;
  /** All calls of a burst ask for the same. */
  readonly plain?: boolean;
  readonly transfers?: number;
  readonly semaphores?: number;
  readonly leaders?: number;
  readonly jobs?: number;
  /** Calls that wait without limit. */
  readonly endless?: number;
}

/** What may go wrong in a run, and how the rest behaves. */
export interface Profile {
  readonly ms: number;
  readonly network: NetworkSettings;
  readonly messages: MessageFaults;
  /** How much faster or slower a clock may run: of processes, and of servers. */
  readonly drift: number;
  readonly serverDrift: number;
  /** The masters of a quorum; 1: a single server. */
  readonly servers: 1 | 3 | 5;
  /** How servers belong together: behind an address that moves, behind Sentinel, or as a cluster. */
  readonly topology: 'none' | 'address' | 'sentinel' | 'cluster';
  /** The masters of a cluster; and the replicas of each master. */
  readonly masters: number;
  readonly replicas: number;
  /** The names of the locks, or some of them. */
  readonly keys: readonly string[];
  /** How many replicas have to confirm a grant. */
  readonly minReplicas: number;
  /** How far the clocks of the servers differ at the start. */
  readonly skewMs: number;
  readonly maxLeaseMs: number;
  readonly shortLeases: boolean;
  readonly rates: FaultRates;
  /** Nothing goes wrong, so nothing may be lost. */
  readonly isCalm: boolean;
  /** How often calls use what they use rarely otherwise. */
  readonly shares: Shares;
  /** How long stops and cuts may last. */
  readonly maxStopMs: number;
  readonly maxCutMs: number;
}

/** How many servers a run has. */
export const serverCount = ({ servers, masters, replicas }: Profile): number => servers * masters * (1 + replicas);

/** All that makes up a run; the same plan gives the same run. */
export interface Plan {
  readonly seed: number;
  readonly profileName: string;
  readonly profile: Profile;
  readonly serverRates: readonly number[];
  readonly serverOffsets: readonly number[];
  readonly slots: readonly PlannedSlot[];
  readonly keys: readonly string[];
  readonly calls: readonly PlannedCall[];
  readonly faults: readonly PlannedFault[];
  /** Plans that failed before there were leaders have none. */
  readonly leads?: readonly PlannedLead[];
}

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
  turnsClocks: profile(TURNS, faults({ sleep: 80, setWall: 500 }), { maxStopMs: 400 }),
  turnsServer: profile(
    TURNS,
    BAD_NETWORK,
    faults(SERVER, { stepClock: 5_000, refuse: 6_000, foreignKey: 6_000, deleteKey: 3_000 }),
  ),
  turnsSentinel: profile(SENTINEL, TURNS, faults(FAILOVERS, { stopSentinel: 8_000, kill: 10_000 })),
  turnsCluster: profile(CLUSTER, TURNS, faults(FAILOVERS, PROCESSES, { moveSlot: 5_000 })),
  turnsPlain: profile(TURNS, { shares: { turns: 0.8, plain: true } }),
  several: profile(faults({ refuse: 6_000, stepClock: 6_000, foreignKey: 3_000 }), { shares: { severalKeys: 0.8 } }),

  quorum: profile(QUORUM),
  quorumSplits: profile(QUORUM, { keys: ['a'], skewMs: 0, shares: { endless: 0.5 } }),
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
