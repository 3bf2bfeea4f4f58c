import { CLOCK_DRIFT, ROUNDING_MS } from '../../../lib/core/timing.js';
import { type Call, type Held, type Outcome } from '../workload/call.js';
import { type SimProcess } from '../world/sim-process.js';
import { type Change, Scope, type Rule } from './rule.js';

/** A timer may be this late (`SimProcess`), once for the renewal and once for the end of the lease. */
const LATE_MS = 2.4;

/** While nothing fails, no lock is lost, no command fails, and no place in a queue is. */
export class Calm extends Scope implements Rule {
  readonly #isOn = this.facts.plan.profile.isCalm;
  /** When the first script of a process arrived: it has a connection, and knows the time of the server. */
  readonly #connectedAt = new Map<SimProcess, number>();

  onLost(held: Held): void {
    const { lost, releasedAt, call } = held;
    const { leaseMs, maxHoldMs, renew = true } = call.plan.options;
    if (!this.#isOn || releasedAt < Infinity) return;
    if (lost === 'dropped' && call.plan.isDropped) return;
    if (lost === 'max-hold' && maxHoldMs !== undefined) return;
    if (lost === 'expired' && (!renew || leaseMs! < this.#shortestMs(held))) return;
    this.facts.world.violate('nothing is lost in calm', `${call.text}: ${lost}, with a lease of ${leaseMs} ms`);
  }

  /**
   * The shortest lease that is always renewed in time. A renewal takes two ways, or four if the server has to be given the
   * script first; call that R. It is due after a third of what the grant proves, so two thirds of that must last for R.
   * A pushed grant proves half of the lease at least. A reply proves the lease less the time of its command: R; but the
   * first one of a process may have to connect (three times two ways) and also ask for the time. It is then renewed at once.
   * Replicas may have to confirm it.
   */
  #shortestMs({ askedAt, call }: Held): number {
    const wayMs = this.facts.plan.profile.network.delayMax;
    const renewalMs = 4 * wayMs + LATE_MS;
    const isFirst = askedAt <= (this.#connectedAt.get(call.process) ?? Infinity);
    const afterPush = 2 * 1.5 * renewalMs;
    const afterReply = (isFirst ? 12 : 4) * wayMs + renewalMs + this.facts.confirmMs;
    return (Math.max(afterPush, afterReply) + ROUNDING_MS) / (1 - CLOCK_DRIFT);
  }

  onSettled(call: Call, outcome: Outcome, error: unknown): void {
    if (!this.#isOn || outcome !== 'LockStoreError') return;
    this.facts.world.violate('nothing fails in calm', `${call.text}: ${(error as Error).message}`);
  }

  /** A place outlives two polls, so none ends while its call waits. */
  onChange({ before, lock, script, key }: Change): void {
    const { now } = this.facts.world;
    if (!this.#connectedAt.has(script.process)) this.#connectedAt.set(script.process, now);
    if (!this.#isOn || script.name === 'inspect') return;
    for (const attempt of before.queue.keys()) {
      const isThere = lock.queue.has(attempt) || lock.holds.has(attempt);
      if (isThere || script.text('attempt') === attempt) continue;
      const call = this.facts.callOf.get(attempt);
      if (!call?.isPending || call.attempt !== attempt || call.abortedAt < Infinity) continue;
      this.facts.world.violate('no place is lost in calm', `${key}: ${call.text} by ${script.name}`);
    }
  }
}

/** A given client whose server has become a replica is left after three seconds of refusals (lib/redis/timing.ts). */
const REPLICA_MS = 4_000;

/** Some time after the last fault, calls no longer fail because of Redis. */
export class Recovered extends Scope implements Rule {
  readonly #replicaSince = new Map<SimProcess, number>();

  onSettled(call: Call, outcome: Outcome, error: unknown): void {
    // A packet that is sent again may take longer than a command.
    if (outcome !== 'LockStoreError' || this.facts.plan.profile.network.resend > 0) return;
    const { process, startedAt, plan } = call;
    const wellMs = startedAt - this.facts.recoveredAt(process);
    const isForeign = this.facts.network.servers.some(({ strangers }) =>
      plan.keys.some((key) => strangers.has(`lock:${key}`)),
    );
    if (wellMs <= 0 || isForeign || this.#isStillGiven(call, error as Error)) return;
    const text = `${call.text}, ${wellMs.toFixed(0)} ms after all is well: ${(error as Error).message}`;
    this.facts.world.violate('nothing fails while Redis answers', text);
  }

  /** It may have been idle since the failover, and hears of it now. */
  #isStillGiven({ app, process, startedAt }: Call, { message }: Error): boolean {
    if (!app.given || !message.includes('READONLY')) return false;
    const since = this.#replicaSince.get(process) ?? startedAt;
    this.#replicaSince.set(process, since);
    return this.facts.world.now <= since + REPLICA_MS;
  }
}

/**
 * A message, a new connection and a renewal; with a second for each sentinel that hangs, and up to two until they have
 * informed each other.
 */
const MOVE_MS = 6_000;

/** "As soon as one of the sentinels names another master, all connections move there." While no network fails. */
export class Moved extends Scope implements Rule {
  onChange({ server, key, script }: Change): void {
    const { world, failovers, plan } = this.facts;
    const { topology, rates } = plan.profile;
    if (topology !== 'sentinel' || rates.cut !== undefined || rates.stop !== undefined) return;
    if (this.facts.authorityOf(key) === server) return;
    const sinceMs = world.now - Math.max(failovers.promotedAt, failovers.sentinelsUntil);
    if (sinceMs <= MOVE_MS) return;
    const text = `${script.process.name} still sends ${script.name} to ${server.name}, ${sinceMs.toFixed(0)} ms after the failover`;
    world.violate('16: connections move to the new master', text);
  }
}
