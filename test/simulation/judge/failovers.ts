import { type FailoverWatch } from '../server/topology.js';
import { type SimServer } from '../server/sim-server.js';
import { type Facts } from './facts.js';
import { type Hold, type LockView, lockOn } from '../../support/lua/lock-view.js';
import { type Change } from './rule.js';

/** What a failover took from a hold: for this time, by the clock of the servers, nothing is promised of it. */
interface Excuse {
  readonly from: number;
  readonly until: number;
}

/**
 * What is lost by failovers, and no more: what the new master did not have when it took over, and what another server did
 * since then. If all replicas confirm grants, no grant is lost unless its slot moves, but renewals may be, and releases.
 */
export class Failovers implements FailoverWatch {
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
    this.#onLost();
  }

  #forget(attempt: string): void {
    this.#forgotten.add(attempt);
    this.#onLost();
  }

  #onLost(): void {
    this.lostAt = this.facts.world.now;
    this.facts.count('lost by failovers');
  }
}
