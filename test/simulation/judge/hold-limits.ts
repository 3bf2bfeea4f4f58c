import { type SimServer } from '../server/sim-server.js';
import { type Held } from '../workload/call.js';
import { KEY_PREFIX } from './facts.js';
import { liveHold } from '../../support/lua/lock-view.js';
import { Judging, type Change, type NewGrant, type Rule } from './rule.js';

/** A timer may be this late, and times are whole milliseconds. */
const LATE_MS = 5;

interface Kept {
  readonly held: Held;
  readonly grantedAt: number;
  /** The world's time until which the lock stays taken. */
  readonly until: number;
}

/** How long a lock is held: `leaseMs` without renewals, at least `holdAtLeastMs`, at most `maxHoldMs`. */
export class HoldLimits extends Judging implements Rule {
  readonly #grantedAt = new Map<string, number>();
  /** By key, who keeps it taken for a least time. */
  readonly #kept = new Map<string, Kept[]>();
  /** When a holder got its lock, on the clock of its process. */
  readonly #heldMono = new Map<Held, number>();

  onGrant(grant: NewGrant): void {
    const { key, attempt, hold, server } = grant;
    const { now } = this.facts.world;
    if (this.facts.isQuorum || this.facts.isStale(server, key)) return;
    this.#grantedAt.set(`${attempt} ${key}`, now);
    const kept = (this.#kept.get(key) ?? []).filter(({ until }) => until - LATE_MS > now);
    this.#kept.set(key, kept);
    const broken = kept.find(({ held }) => held.attempt !== attempt && this.#excludes(held, hold, server));
    if (!broken) return;
    const text = `${key}: ${this.facts.who(attempt)} has it ${(broken.until - now).toFixed(0)} ms too soon after ${broken.held.call.text}`;
    this.facts.world.violate('a lock stays taken for holdAtLeastMs', text);
  }

  #excludes(held: Held, next: NewGrant['hold'], server: SimServer): boolean {
    if (held.lock.mode === 'read' && next.mode === 'read') return false;
    return held.owner === undefined && !this.facts.isExempt(held, server);
  }

  onHeld(held: Held): void {
    this.#heldMono.set(held, held.call.process.clock.now());
    const { holdAtLeastMs } = held.call.plan.options;
    if (held.hold && !this.facts.isQuorum) this.#checkLease(held);
    if (!held.hold || holdAtLeastMs === undefined || this.facts.isQuorum) return;
    for (const key of held.keys.map((name) => KEY_PREFIX + name)) {
      const grantedAt = this.#grantedAt.get(`${held.attempt} ${key}`);
      if (grantedAt === undefined) continue;
      const kept = { held, grantedAt, until: grantedAt + holdAtLeastMs * 0.99 };
      this.#kept.set(key, [...(this.#kept.get(key) ?? []), kept]);
    }
  }

  /** It lasts for `holdAtLeastMs` even if its holder dies, and for `leaseMs` if it is not renewed. */
  #checkLease({ call, keys, attempt }: Held): void {
    const { holdAtLeastMs = 0, renew } = call.plan.options;
    const leastMs = Math.max(holdAtLeastMs, renew === false ? call.leaseMs : 0);
    if (this.facts.failovers.mayBeShorter(attempt)) return;
    for (const key of keys) {
      const lease = liveHold(this.facts.lockThatCounts(key), attempt)?.lease ?? Infinity;
      if (lease < leastMs)
        this.facts.world.violate('a lease is as long as it must be', `${call.text}: ${lease} of ${leastMs} ms`);
    }
  }

  /** No lease is longer than somebody asked for, and none grows when the clock of the server steps back. */
  onChange(change: Change): void {
    const { key, live, now, script, lock } = change;
    if (script.name === 'inspect') return;
    for (const [attempt, { deadline, token, lease }] of live) {
      const most = Math.max(token === 0 ? 0 : this.#longestLease(attempt), token === 0 ? lease : 0);
      if (deadline - now > most + 1)
        this.#tooLong(change, `${this.facts.who(attempt)} may hold for ${deadline - now} ms`);
    }
    for (const { attempt, deadline, waiterLeaseMs } of lock.queue.values()) {
      if (deadline - now <= waiterLeaseMs || this.facts.plan.profile.rates.stepClock) continue;
      this.#tooLong(change, `${this.facts.who(attempt)} may wait for ${deadline - now} ms`);
    }
    this.#checkParked(change, key);
  }

  #longestLease(attempt: string): number {
    const call = this.facts.callOf.get(attempt);
    if (!call) return Infinity;
    const { steps, options } = call.plan;
    return Math.max(call.leaseMs, options.holdAtLeastMs ?? 0, ...steps.map(({ leaseMs }) => leaseMs ?? 0));
  }

  /** What was released stays taken until `holdAtLeastMs` after its grant, and no longer. */
  #checkParked({ lock, script, now }: Change, key: string): void {
    if (script.name !== 'release' || this.facts.plan.profile.rates.stepClock) return;
    const attempt = script.text('attempt');
    const parked = lock.holds.get(attempt);
    const kept = this.#kept.get(key)?.find(({ held }) => held.attempt === attempt);
    if (!parked || parked.token > 0 || !kept) return;
    const least = kept.held.call.plan.options.holdAtLeastMs! - (this.facts.world.now - kept.grantedAt) * 0.99;
    if (parked.deadline - now <= least + LATE_MS) return;
    const text = `${key}: ${kept.held.call.text} keeps it for ${parked.deadline - now} ms more, not ${least.toFixed(0)}`;
    this.facts.world.violate('a lock stays taken for holdAtLeastMs', text);
  }

  #tooLong({ key, server }: Change, text: string): void {
    const state = this.facts.show(server, key);
    this.facts.world.violate('3: a lease is no longer than somebody asked for', `${key}: ${text}: ${state}`);
  }

  onTick(): void {
    for (const held of this.#heldMono.keys()) {
      if (held.call.process.isDead || !this.facts.held.has(held)) this.#heldMono.delete(held);
      else this.#checkLongest(held);
    }
  }

  /** In time, unless the process has just been stopped. */
  #checkLongest(held: Held): void {
    const { world } = this.facts;
    const { process, plan } = held.call;
    const { renew, maxHoldMs = Infinity } = plan.options;
    const wasStopped = process.stops.some(({ to }) => to >= world.now - LATE_MS);
    if (!held.hold || !held.lock.held || wasStopped || held.releasedAt < Infinity) return;
    const heldMs = process.clock.now() - this.#heldMono.get(held)! - LATE_MS;
    if (heldMs > maxHoldMs) {
      world.violate(
        'a lock is held for maxHoldMs at most',
        `${held.call.text}: ${heldMs.toFixed(0)} of ${maxHoldMs} ms`,
      );
    }
    const leaseMs = this.#longestLease(held.attempt);
    const extended = plan.steps.some(({ does }) => does === 'extend');
    if (renew === false && !extended && heldMs > leaseMs) {
      world.violate('a lease without renewals ends', `${held.call.text}: ${heldMs.toFixed(0)} of ${leaseMs} ms`);
    }
  }
}
