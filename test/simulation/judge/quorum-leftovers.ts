import { type SimServer } from '../server/sim-server.js';
import { type Call } from '../workload/call.js';
import { type Facts } from './facts.js';
import { type Rule } from './rule.js';

/**
 * A node that is away gets its releases a quarter of a second after it is known to be back, and a late vote is given back then.
 * A machine that was gone is known to be back when TCP sends again, up to a second later (`Socket`).
 */
const RELEASE_MS = 2_200;

/** Promise 10, for each node of a quorum: no hold stays behind for an attempt that is over, nor for one that was replaced. */
export class QuorumLeftovers implements Rule {
  readonly #overSince = new Map<string, number>();

  constructor(private readonly facts: Facts) {}

  onTick(): void {
    if (!this.facts.isQuorum) return;
    for (const server of this.facts.network.servers) {
      for (const key of server.keys) this.#check(server, key);
    }
  }

  #check(server: SimServer, key: string): void {
    const { holds, queue } = server.lock(key);
    const now = server.nowMs;
    for (const [attempt, { deadline, token }] of holds) {
      if (deadline > now && token > 0) this.#checkAttempt(server, key, attempt, 'hold');
    }
    for (const { attempt, deadline } of queue.waiters) {
      if (deadline > now) this.#checkAttempt(server, key, attempt, 'place');
    }
  }

  #checkAttempt(server: SimServer, key: string, attempt: string, what: string): void {
    const { world, callOf, plan } = this.facts;
    const call = callOf.get(attempt);
    if (!call || call.process.isDead || call.process.isStopped || call.process.isClosing) return;
    const id = `${server.id} ${attempt}`;
    if (!this.#isOver(call, attempt)) return void this.#overSince.delete(id);
    const since = this.#overSince.get(id) ?? world.now;
    this.#overSince.set(id, since);
    const overMs = world.now - Math.max(since, this.facts.troubledUntil(call.process));
    if (overMs <= RELEASE_MS + 4 * plan.profile.network.resendMax) return;
    const text = `${server.name} ${key}: a ${what} of ${call.text}, over for ${overMs.toFixed(0)} ms: ${this.facts.show(server, key)}`;
    world.violate(`10: no ${what} without an owner`, text);
  }

  #isOver(call: Call, attempt: string): boolean {
    const { held } = call;
    if (call.isPending) return call.attempt !== attempt;
    if (held?.attempt !== attempt) return true;
    return held.releasedAt < Infinity && !call.plan.nested && !(call.plan.isDropped && held.lost !== null);
  }
}
