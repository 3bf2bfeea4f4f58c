import { slotOf } from '../../../lib/redis/client/cluster-slots.js';
import { type FailoverWatch } from '../server/topology.js';
import { type SimServer } from '../server/sim-server.js';
import { type Hold, lockOn, type LockView, type Waiter } from '../../support/lua/lock-view.js';
import { type Fault, History } from '../../checker/history.js';
import { FIRST_ANSWER_MS } from '../../checker/waits.js';
import { type Change } from './rule.js';
import { type Network } from '../network/network.js';
import { MOST_LAG_MS } from '../server/member.js';
import { type SimProcess } from '../world/sim-process.js';
import { type World } from '../world/world.js';
import { type Call, type Held } from '../workload/call.js';
import { type Plan } from '../workload/plan.js';

/** What a failover took from a hold: for this time, by the clock of the servers, nothing is promised of it. */
interface Excuse {
  readonly from: number;
  readonly until: number;
}

/**
 * What is lost by failovers, and no more: what the new master did not have when it took over, and what another server did
 * since then. If all replicas confirm grants, no grant is lost unless its slot moves, but renewals may be, and releases.
 */
class Failovers implements FailoverWatch {
  /** When something was lost last. */
  lostAt = -Infinity;
  /** When a replica took over last; and until when a sentinel is away. */
  promotedAt = -Infinity;
  sentinelsUntil = -Infinity;
  readonly #excuses = new Map<string, Excuse>();
  /** The attempts whose end was lost. */
  readonly #forgotten = new Set<string>();
  /** The attempts whose holds have moved with their slot: the replicas that confirmed them were those of another master. */
  readonly #moved = new Set<string>();
  /** The attempts that asked a server which does not count: they may have a token of it. */
  readonly #elsewhere = new Set<string>();

  constructor(private readonly facts: Facts) {}

  isExcused(attempt: string, now: number): boolean {
    const excuse = this.#excuses.get(attempt);
    return excuse !== undefined && excuse.from <= now && now <= excuse.until;
  }

  /** Whether an attempt may have been granted by two servers, with another token each. */
  wasElsewhere(attempt: string): boolean {
    return this.#elsewhere.has(attempt);
  }

  /** Whether the server that counts may have a shorter lease than the holder was granted. */
  mayBeShorter(attempt: string): boolean {
    return this.#excuses.has(attempt) || this.wasElsewhere(attempt);
  }

  /** Whether a failover forgot that an attempt is over. */
  isForgotten(attempt: string): boolean {
    return this.#forgotten.has(attempt);
  }

  trouble(until: number): void {
    this.facts.trouble(until);
  }

  onPromotion(old: SimServer, next: SimServer): void {
    const { facts } = this;
    facts.count('failovers');
    this.promotedAt = facts.world.now;
    for (const key of new Set([...old.keys, ...next.keys])) {
      if (facts.network.topology!.authorityOf(key) !== next) continue;
      const [before, now] = [lockOn(old, key), lockOn(next, key)];
      for (const [attempt, hold] of before.holds) {
        if (hold.deadline > old.nowMs) this.#compare(attempt, hold, now);
      }
      const isOver = (attempt: string): boolean => !before.holds.has(attempt) && !before.queue.has(attempt);
      for (const attempt of [...now.holds.keys(), ...now.queue.keys()]) if (isOver(attempt)) this.#forget(attempt);
    }
  }

  onMoved(key: string, to: SimServer): void {
    for (const attempt of lockOn(to, key).holds.keys()) this.#moved.add(attempt);
  }

  /** A server that does not count for a key has run a script. */
  onStale({ script, key, live, before }: Change): void {
    const { facts } = this;
    const now = lockOn(facts.authorityOf(key), key);
    for (const [attempt, hold] of live) this.#compare(attempt, hold, now);
    const over = [...before.holds.keys(), ...before.queue.keys()];
    const isThere = (attempt: string): boolean => live.some(([other]) => other === attempt);
    for (const attempt of over) if (!isThere(attempt)) this.#forget(attempt);
    if (script.name.startsWith('acquire')) this.#elsewhere.add(script.text('attempt'));
    facts.forget([key.slice(KEY_PREFIX.length)]);
    if (script.name === 'release') this.#forget(script.text('attempt'));
  }

  #compare(attempt: string, hold: Hold, now: LockView): void {
    const known = now.holds.get(attempt);
    const until = hold.deadline;
    // Unless it was there, and ran out because a renewal was lost.
    if (!known && this.#confirmsAll && !this.#moved.has(attempt) && !this.#excuses.has(attempt)) return;
    if (!known) this.#excuse(attempt, { from: -Infinity, until });
    else if (known.deadline < until) this.#excuse(attempt, { from: known.deadline, until });
  }

  /** Whether a grant counts only when every replica has it. */
  get #confirmsAll(): boolean {
    const { minReplicas, replicas } = this.facts.plan.profile;
    return minReplicas > 0 && minReplicas >= replicas;
  }

  #excuse(attempt: string, { from, until }: Excuse): void {
    const known = this.#excuses.get(attempt) ?? { from, until };
    this.#excuses.set(attempt, { from: Math.min(known.from, from), until: Math.max(known.until, until) });
    this.#onLost(attempt);
  }

  #forget(attempt: string): void {
    this.#forgotten.add(attempt);
    this.#onLost(attempt);
  }

  #onLost(attempt: string): void {
    this.facts.forget(this.facts.callOf.get(attempt)?.plan.keys);
    this.lostAt = this.facts.world.now;
    this.facts.count('lost by failovers');
  }
}

/**
 * How long after a fault its traces may last. A dead connection is noticed after the time limit of a command and a silence
 * of up to 5 s; a new one may take 3 s to open, 2 s to be greeted and 1 s until the next try; a subscriber is checked each
 * second, and has 2 s to answer (lib/redis/timing.ts).
 */
export const RECOVERY_MS = 14_000;

/** A process connects when it starts, which is normal, but takes a moment. */
const START_MS = 1_000;

export const KEY_PREFIX = 'lock:';

const MOST_WAITER_LEASE_MS = 6_000;
/** As in lib/core/timing.ts: how long a place is kept without a word; a waiter polls after a third of that. */
export const waiterLeaseMs = (leaseMs: number): number => Math.max(500, Math.min(leaseMs, MOST_WAITER_LEASE_MS));

/** A timer may be 1.2 ms late (`SimProcess`), and one that fired too early is set again, for a millisecond at least. */
const LATE_MS = 4;

/** What the rules know about a run. */
export class Facts {
  readonly calls = new Map<string, Call>();
  readonly pending = new Set<Call>();
  /** Calls that hold, or have released and not yet heard of it. */
  readonly held = new Set<Held>();
  readonly callOf = new Map<string, Call>();
  /** The attempts that an operator has revoked, and when any was revoked in a quorum. */
  readonly revoked = new Set<string>();
  revokedAt = -Infinity;
  /** What happened, and how often. */
  readonly counts = new Map<string, number>();
  readonly failovers = new Failovers(this);
  /** What callers see. */
  readonly history: History;
  /** When something else was last stored under the name of a lock. */
  readonly foreignUntil = new Map<string, number>();
  /** How often each method of the public API was called. */
  readonly publicCalls = new Map<string, number>();
  /** When the last fault ends that affects a process, or the links of a slot: those outlive a process. */
  readonly #troubledUntil = new Map<SimProcess | number, number>();
  #allTroubledUntil = -Infinity;

  constructor(
    readonly world: World,
    readonly network: Network,
    readonly plan: Plan,
  ) {
    this.history = new History({
      tellingMs: 5,
      recoveryMs: RECOVERY_MS,
      roundingMs: 0,
      lateMs: LATE_MS,
      asksWithinMs: this.wayMs,
      wakeUpMs: this.pollMs(MOST_WAITER_LEASE_MS),
    });
  }

  /** How long a message, a command and its reply take, with some room. */
  get wayMs(): number {
    const { delayMax, resendMax } = this.plan.profile.network;
    return 4 * (delayMax + resendMax) + 30;
  }

  /** Within which time a poll of a place with this lease is answered. */
  pollMs(waiterLease: number): number {
    return (waiterLease / 3) * 1.02 + this.wayMs;
  }

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

  /** Servers forget some locks, or all. */
  forget(forgets: Fault['forgets'], stepsBackMs = 0): void {
    const { now: from } = this.world;
    const fault = { id: 0, kind: 'loss', worker: undefined, forgets, stepsBackMs, from, to: from };
    this.history.faults.push(fault);
  }

  /** A fault lasts until then; of one process, of the links of a slot, or of a server that all processes use. */
  trouble(until: number, whose?: SimProcess | number): void {
    const worker = whose === undefined ? undefined : `P${typeof whose === 'number' ? whose : whose.slot}`;
    const span = { from: this.world.now, to: until };
    this.history.faults.push({ id: 0, kind: 'trouble', worker, forgets: undefined, stepsBackMs: 0, ...span });
    if (whose !== undefined)
      this.#troubledUntil.set(whose, Math.max(this.#troubledUntil.get(whose) ?? -Infinity, until));
    else this.#allTroubledUntil = Math.max(this.#allTroubledUntil, until);
  }

  /** A process starts now. */
  started(process: SimProcess): void {
    this.trouble(this.world.now + START_MS - RECOVERY_MS, process);
  }

  /** Until when the last fault of a process lasts, or lasted; with the time that it takes to recover. */
  recoveredAt(process: SimProcess): number {
    return this.#lastTrouble(process) + RECOVERY_MS;
  }

  troubledUntil(process: SimProcess): number {
    return this.#lastTrouble(process);
  }

  #lastTrouble(process: SimProcess): number {
    const own = [process, process.slot].map((whose) => this.#troubledUntil.get(whose) ?? -Infinity);
    return Math.max(...own, this.#allTroubledUntil);
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

  /** How long a call may give back what it has locked in other slots of a cluster, before it fails. */
  givingBackMs({ plan: { keys } }: Call): number {
    const slots = new Set(keys.map((key) => slotOf(KEY_PREFIX + key)));
    return this.plan.profile.topology === 'cluster' && slots.size > 1 ? FIRST_ANSWER_MS : 0;
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
