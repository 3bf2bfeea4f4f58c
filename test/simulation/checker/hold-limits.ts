import { type SimServer } from '../server/sim-server.js';
import { type Call, type Held } from '../workload/call.js';
import { KEY_PREFIX } from './facts.js';
import { liveHold } from '../../support/lua/lock-view.js';
import { type Change, Scope, type NewGrant, type Rule } from './rule.js';
import { EPOCH_MS } from '../world/sim-process.js';

/** A timer may be this late, and times are whole milliseconds. */
const LATE_MS = 5;

interface Kept {
  readonly held: Held;
  readonly grantedAt: number;
  /** The world's time until which the lock stays taken. */
  readonly until: number;
}

/** How long a lock is held: `leaseMs` without renewals, at least `holdAtLeastMs`, at most `maxHoldMs`. */
export class HoldLimits extends Scope implements Rule {
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

  /** No lease is longer than requested, and none grows when the clock of the server steps back. */
  onChange(change: Change): void {
    const { key, live, now, script, lock, reply } = change;
    // A script that has failed has not checked the leases.
    if (script.name === 'inspect' || reply[0] === 'failed') return;
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
    this.facts.world.violate('3: a lease is at most as long as requested', `${key}: ${text}: ${state}`);
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

interface Run {
  readonly held: Held;
  readonly fire: number;
  /** On how many servers its outcome is known. */
  confirmed: number;
  isOver: boolean;
}

/** The clocks of a process and a server count the age of a call; either may be off by this. */
const ROUNDING_MS = 5;

/**
 * One run per fire of a job; with `rerunOnLoss`, one that ended without an outcome may be repeated. A slot is that of the call, and a
 * gap is kept.
 */
export class Fires extends Scope implements Rule {
  /** The fire that an attempt claimed, as the server replied. */
  readonly #fireOf = new Map<string, number>();
  readonly #runs = new Map<string, Run[]>();
  readonly #byAttempt = new Map<string, Run>();

  onChange({ script, reply }: Change): void {
    const attempt = script.text('attempt');
    if (script.name === 'acquire' && reply[0] === 'granted' && (reply[5] ?? '') !== '')
      this.#fireOf.set(attempt, Number(reply[5]));
    const run = this.#byAttempt.get(attempt);
    if (!run || script.name !== 'release' || reply[0] !== 'released') return;
    if (['done', 'failed'].includes(script.text('runOutcome'))) run.confirmed += 1;
    const hasEnded = !this.facts.isQuorum && run.held.releasedAt < Infinity && run.held.lost === null;
    if (hasEnded || run.confirmed >= this.facts.majority) run.isOver = true;
  }

  onHeld(held: Held): void {
    const { call, keys, attempt } = held;
    const { claim } = call.plan;
    if (!claim) return;
    const fire = this.#fireOf.get(attempt);
    if (fire === undefined) return this.violate('one run per fire', call, 'runs without a fire');
    this.facts.count('runs');
    const id = `${keys[0]} ${claim.job}`;
    const before = this.#runs.get(id) ?? [];
    const run = { held, fire, confirmed: 0, isOver: false };
    this.#runs.set(id, [...before, run]);
    this.#byAttempt.set(attempt, run);
    const again = before.find((one) => one.fire === fire && (!claim.rerunOnLoss || one.isOver));
    if (again && !this.#isForgotten(before))
      this.violate('one run per fire', call, `${id} ${fire} is run again after ${again.held.call.text}`);
    if (this.facts.isQuorum || this.facts.plan.profile.rates.stepClock || this.#isForgotten(before)) return;
    if (claim.kind === 'gap') this.#checkGap(id, run, before, claim.ms);
    if (claim.kind === 'slot') this.#checkSlot(call, fire, claim.ms);
  }

  /** Whether the record of an earlier run may be lost. */
  #isForgotten([first]: readonly Run[]): boolean {
    const { network, failovers } = this.facts;
    const since = first?.held.askedAt ?? Infinity;
    return failovers.lostAt > since || network.servers.some(({ wipes }) => wipes.some((at) => at > since));
  }

  #checkGap(id: string, { fire, held }: Run, before: readonly Run[], ms: number): void {
    const near = before.find((one) => one.isOver && fire - one.fire < ms);
    if (near)
      this.violate('one run per fire', held.call, `${id} is run ${fire - near.fire} ms after ${near.held.call.text}`);
  }

  /** A call that waited has the slot in which it was made. */
  #checkSlot(call: Call, fire: number, ms: number): void {
    const { rates, drift, serverDrift } = this.facts.plan.profile;
    if (rates.sleep) return;
    const { now } = this.facts.world;
    const madeAt = EPOCH_MS + call.startedAt;
    const offMs = ROUNDING_MS + 2 * drift * (now - call.startedAt) + serverDrift * now;
    const slots = [madeAt - offMs, madeAt + offMs].map((at) => Math.floor(at / ms) * ms);
    if (!slots.includes(fire))
      this.violate('a slot is that of the call', call, `has ${fire}, not ${slots.join(' or ')}`);
  }

  onEnd(): void {
    if (!this.facts.plan.profile.isCalm) return;
    for (const { plan } of this.facts.calls.values()) {
      const { claim, keys } = plan;
      if (claim?.kind !== 'at') continue;
      const runs = this.#runs.get(`${keys[0]} ${claim.job}`) ?? [];
      if (runs.some(({ fire }) => fire === EPOCH_MS + claim.ms)) continue;
      return this.facts.world.violate('one run per fire', `${keys[0]} ${claim.job} ${claim.ms} was not run`);
    }
  }
}
