import { type LockOptions } from '../../../lib/core/lock.options.js';
import { type NetworkSettings } from '../network/network.js';
import { type MessageFaults } from '../server/subscriptions.js';
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
 * `enter` is what a decorator does, `adopt` goes on with a lock that another call has transferred.
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

/** A campaign of each process of a slot for a lead: a key of its own. */
export interface PlannedLead {
  readonly slot: number;
  readonly key: string;
  readonly leaseMs: number;
  /** After so long, a leader resigns; without a number, it never does. */
  readonly termMs?: number | undefined;
  /** How long its work goes on after a term. */
  readonly goesOnMs: number;
}

/** A place for processes: when one has ended, another may start in it. */
export interface PlannedSlot {
  /** How fast its clocks run. */
  readonly rate: number;
  /** The application passes in a client of its own. */
  readonly isGiven: boolean;
  /** How many calls it makes at once; while as many are pending, it makes no other. */
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
export type FaultRates = Partial<Record<FaultKind, number>>;

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
  readonly transfers?: number;
  readonly semaphores?: number;
  readonly leaders?: number;
  readonly jobs?: number;
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
