import { type Held } from '../workload/call.js';
import { type Facts, KEY_PREFIX } from './facts.js';
import { type Rule } from './rule.js';

/** A command, the turn of a busy process, and a message that comes late. */
const SLACK_MS = 1_500;

/**
 * Promise 4: whoever has lost a lock on the server (or on a majority of a quorum) hears of it with the next renewal, after a
 * third of the lease at the latest.
 */
export class Losses implements Rule {
  readonly #goneSince = new Map<Held, number>();

  constructor(private readonly facts: Facts) {}

  onTick(): void {
    for (const held of this.facts.held) if (held.hold) this.#check(held);
  }

  #check(held: Held): void {
    const { world, plan } = this.facts;
    const { process } = held.call;
    if (held.lost !== null || held.releasedAt < Infinity || process.isDead || process.isStopped) return;
    if (this.#isBacked(held)) return void this.#goneSince.delete(held);
    const since = this.#goneSince.get(held) ?? world.now;
    this.#goneSince.set(held, since);
    const extensions = held.call.plan.steps.map(({ leaseMs }) => leaseMs ?? 0);
    const leaseMs = Math.max(held.call.leaseMs, held.call.plan.options.holdAtLeastMs ?? 0, ...extensions);
    const { delayMax, resendMax } = plan.profile.network;
    // Without renewals, the end of the lease tells.
    const toldMs = held.call.plan.options.renew === false ? leaseMs : leaseMs / 3;
    const boundMs = toldMs * 1.02 + SLACK_MS + 8 * delayMax + 4 * resendMax;
    const unawareMs = world.now - Math.max(since, this.facts.recoveredAt(process));
    if (unawareMs <= boundMs) return;
    world.violate('4: a loss is always reported', `${held.call.text} has lost its lock ${unawareMs.toFixed(0)} ms ago`);
  }

  #isBacked({ hold, attempt }: Held): boolean {
    const { facts } = this;
    return hold!.keys.every((key) => {
      const backing = facts
        .votersFor(KEY_PREFIX + key)
        .filter((server) => (facts.lockOf(server, key).holds.get(attempt)?.deadline ?? 0) > server.nowMs);
      return backing.length >= facts.majority;
    });
  }
}
