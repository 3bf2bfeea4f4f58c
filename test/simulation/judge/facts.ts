import { type Network } from '../network/network.js';
import { MOST_LAG_MS } from '../server/replica-link.js';
import { type SimServer } from '../server/sim-server.js';
import { type SimProcess } from '../world/sim-process.js';
import { type World } from '../world/world.js';
import { type Call, type Held } from '../workload/call.js';
import { type Plan } from '../workload/plan.js';
import { Failovers } from './failovers.js';
import { type LockView, type Waiter, lockOn } from '../../support/lua/lock-view.js';

/**
 * How long after a fault its traces may last. A dead connection is noticed after the time limit of a command and a silence
 * of up to 5 s; a new one may take 3 s to open, 2 s to be greeted and 1 s until the next try; a subscriber is checked each
 * second, and has 2 s to answer (lib/redis/timing.ts).
 */
export const RECOVERY_MS = 14_000;

export const KEY_PREFIX = 'lock:';

/** As in lib/core/timing.ts: how long a place is kept without a word; a waiter polls after a third of that. */
export const waiterLeaseMs = (leaseMs: number): number => Math.max(500, Math.min(leaseMs, 6_000));

/** What the rules know of a run. */
export class Facts {
  readonly calls = new Map<string, Call>();
  readonly pending = new Set<Call>();
  /** Whoever holds, or has released and not yet heard of it. */
  readonly held = new Set<Held>();
  readonly callOf = new Map<string, Call>();
  /** The attempts that an operator has revoked, and when any was revoked in a quorum. */
  readonly revoked = new Set<string>();
  revokedAt = -Infinity;
  /** What happened, and how often. */
  readonly counts = new Map<string, number>();
  readonly failovers = new Failovers(this);
  /** When something else was last stored under the name of a lock. */
  readonly foreignUntil = new Map<string, number>();
  /** How often each method of the public API was called. */
  readonly publicCalls = new Map<string, number>();
  /** When no fault affects a process any more, or the links of a slot: those outlive a process. */
  readonly #troubledUntil = new Map<SimProcess | number, number>();
  #allTroubledUntil = -Infinity;

  constructor(
    readonly world: World,
    readonly network: Network,
    readonly plan: Plan,
  ) {}

  get isQuorum(): boolean {
    return this.plan.profile.servers > 1;
  }

  /** How many servers decide: of those that vote for a key. */
  get majority(): number {
    return this.isQuorum ? Math.floor(this.network.servers.length / 2) + 1 : 1;
  }

  /** How long replicas take to confirm a grant, if they have to, unless something is wrong. */
  get confirmMs(): number {
    return this.plan.profile.minReplicas > 0 ? MOST_LAG_MS : 0;
  }

  count(what: string): void {
    this.counts.set(what, (this.counts.get(what) ?? 0) + 1);
  }

  called(method: string): void {
    this.publicCalls.set(method, (this.publicCalls.get(method) ?? 0) + 1);
  }

  /** A fault lasts until then; of one process, of the links of a slot, or of a server that all processes use. */
  trouble(until: number, whose?: SimProcess | number): void {
    if (whose !== undefined) this.#troubledUntil.set(whose, Math.max(this.#troubledUntil.get(whose) ?? 0, until));
    else this.#allTroubledUntil = Math.max(this.#allTroubledUntil, until);
  }

  /** Until when the last fault of a process lasts, or lasted; with the time that it takes to recover. */
  recoveredAt(process: SimProcess): number {
    return this.#lastTrouble(process) + RECOVERY_MS;
  }

  troubledUntil(process: SimProcess): number {
    return this.#lastTrouble(process);
  }

  #lastTrouble(process: SimProcess): number {
    const { bornAt, slot } = process;
    const own = Math.max(this.#troubledUntil.get(process) ?? -Infinity, this.#troubledUntil.get(slot) ?? -Infinity);
    // It connects when it starts, which is no trouble, but takes a moment.
    return Math.max(own, this.#allTroubledUntil, bornAt - RECOVERY_MS + 1_000);
  }

  /** Whether nothing is promised of this hold on this server: its data, or its time, was tampered with. */
  isExempt(held: Held, server: SimServer, attempt = held.attempt): boolean {
    if (this.revoked.has(attempt) || this.failovers.isExcused(attempt, server.nowMs)) return true;
    return server.wipes.some((at) => at > held.askedAt) || server.steppedForwardAt > held.askedAt;
  }

  lockOf(server: SimServer, key: string): LockView {
    return lockOn(server, KEY_PREFIX + key);
  }

  /** Whether a waiter is granted its lock in its turn: it waits for no other lock, and for no fire. */
  isSimple({ attempt, asksAgain }: Waiter): boolean {
    const { keys, claim } = this.callOf.get(attempt)?.plan ?? {};
    return !asksAgain && (keys === undefined || keys.length === 1) && claim === undefined;
  }

  /** A lock on the server that counts for it. */
  lockThatCounts(key: string): LockView {
    return this.lockOf(this.authorityOf(KEY_PREFIX + key), key);
  }

  /** The servers that decide about a lock. */
  votersFor(storageKey: string): readonly SimServer[] {
    return this.isQuorum ? this.network.servers : [this.authorityOf(storageKey)];
  }

  /** The server that counts for a lock; in a quorum, one of those that vote. */
  authorityOf(storageKey: string): SimServer {
    return this.network.topology?.authorityOf(storageKey) ?? this.network.servers[0]!;
  }

  /** Whether what a server does to a lock does not count: another one has taken over. */
  isStale(server: SimServer, storageKey: string): boolean {
    return !this.isQuorum && this.authorityOf(storageKey) !== server;
  }

  /** A lock in one line. */
  show(server: SimServer, storageKey: string): string {
    const lock = lockOn(server, storageKey);
    const now = server.nowMs;
    const left = (deadline: number): string => `${(deadline - now).toFixed(0)} ms`;
    const holds = [...lock.holds].map(
      ([attempt, { mode, token, deadline }]) =>
        `${this.who(attempt)} ${mode}${token ? '' : ' parked'} ${left(deadline)}`,
    );
    const queue = [...lock.queue.values()].map(
      ({ attempt, mode, fair, deadline }) => `${this.who(attempt)} ${mode}${fair ? '' : ' unfair'} ${left(deadline)}`,
    );
    return `held by [${holds.join(', ')}], queue [${queue.join(', ')}]`;
  }

  who(attempt: string): string {
    const call = this.callOf.get(attempt);
    return call ? `${call.name}/${call.process.name}` : attempt;
  }
}

/** The client of an attempt. */
export const clientOf = (attempt: string): string => attempt.split('.')[0]!;
