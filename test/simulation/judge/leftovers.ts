import { type SimServer } from '../server/sim-server.js';
import { type Call } from '../workload/call.js';
import { type Facts } from './facts.js';
import { type Change, type Rule } from './rule.js';

/** A release is tried again after at most a second, and takes a command. */
const RELEASE_MS = 1_500;

/** After a fault, the releases that failed are on their way again within this time. */
const AFTER_FAULT_MS = 7_000;

/** Promises 3 and 10: no hold and no place stays behind for a call that is over, and nothing at all at the end. */
export class Leftovers implements Rule {
  readonly #keys = new Set<string>();
  readonly #reported = new Set<string>();
  /** Since when a call goes on with another attempt. */
  readonly #replacedAt = new Map<string, number>();

  constructor(private readonly facts: Facts) {}

  onChange({ key }: Change): void {
    this.#keys.add(key);
  }

  onTick(): void {
    if (this.facts.isQuorum) return;
    for (const key of this.#keys) this.#check(this.facts.authorityOf(key), key);
  }

  #check(server: SimServer, key: string): void {
    const lock = server.lock(key);
    const now = server.nowMs;
    for (const [attempt, { deadline, token }] of lock.holds) {
      if (deadline > now && token > 0) this.#checkAttempt(server, key, attempt, 'hold');
    }
    for (const { attempt, deadline } of lock.queue.waiters) {
      if (deadline > now) this.#checkAttempt(server, key, attempt, 'place');
    }
  }

  #checkAttempt(server: SimServer, key: string, attempt: string, what: string): void {
    const { facts } = this;
    const { world } = facts;
    const call = facts.callOf.get(attempt);
    const { failovers } = this.facts;
    if (failovers.isForgotten(attempt) || failovers.wasElsewhere(attempt)) return;
    if (!call || call.process.isDead || call.process.isStopped || this.#reported.has(attempt)) return;
    const over = this.#overSince(call, attempt);
    // A release that is answered by an error of the key is not tried again: the lock ends with its lease.
    if (!over || over.since <= (facts.foreignUntil.get(key) ?? -Infinity)) return;
    const { resendMax } = facts.plan.profile.network;
    const sinceWell = world.now - Math.max(over.since, facts.recoveredAt(call.process));
    const sinceFault = world.now - Math.max(over.since, facts.troubledUntil(call.process));
    const isWanted = over.until > world.now + 50;
    if (sinceWell <= RELEASE_MS + 4 * resendMax && (sinceFault <= AFTER_FAULT_MS || !isWanted)) return;
    this.#reported.add(attempt);
    const text = `${key}: a ${what} of ${call.text}, over for ${(world.now - over.since).toFixed(0)} ms: ${facts.show(server, key)}`;
    world.violate(`10: no ${what} without an owner`, text);
  }

  /** Since when nobody wants what an attempt has, and until when it is given back; undefined if it is wanted. */
  #overSince(call: Call, attempt: string): { since: number; until: number } | undefined {
    const { held } = call;
    if (call.isPending) {
      if (call.attempt === attempt || call.granted.includes(attempt)) return void this.#replacedAt.delete(attempt);
      const since = this.#replacedAt.get(attempt) ?? this.facts.world.now;
      this.#replacedAt.set(attempt, since);
      return { since, until: Infinity };
    }
    if (!held || !call.granted.includes(attempt))
      return { since: call.settledAt, until: call.settledAt + call.leaseMs };
    if (held.releasedAt === Infinity || held.call.plan.nested) return undefined;
    // Nobody knows whether the work goes on: a lost lock that is dropped ends with its lease.
    if (held.call.plan.isDropped && held.lost !== null) return undefined;
    return { since: held.releasedAt, until: held.wantedUntil };
  }

  onEnd(): void {
    for (const server of this.facts.network.servers) {
      for (const key of server.keys) {
        const { holds, queue } = server.lock(key);
        const isLive = ({ deadline }: { readonly deadline: number }): boolean => deadline > server.nowMs;
        if (![...holds.values()].some(isLive) && !queue.waiters.some(isLive)) continue;
        this.facts.world.violate(
          '10: nothing is left on a server',
          `${server.name} ${key}: ${this.facts.show(server, key)}`,
        );
      }
    }
  }
}
