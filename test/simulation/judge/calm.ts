import { type Call, type Held, type Outcome } from '../workload/call.js';
import { type Facts } from './facts.js';
import { type Change, type Rule } from './rule.js';

/** While nothing fails, no lock is lost, no command fails, and no place in a queue is. */
export class Calm implements Rule {
  readonly #isOn: boolean;

  constructor(private readonly facts: Facts) {
    this.#isOn = facts.plan.profile.isCalm;
  }

  onLost({ lost, releasedAt, call }: Held): void {
    const { leaseMs, maxHoldMs, renew = true } = call.plan.options;
    if (!this.#isOn || releasedAt < Infinity) return;
    if (lost === 'dropped' && call.plan.isDropped) return;
    if (lost === 'max-hold' && maxHoldMs !== undefined) return;
    if (lost === 'expired' && (!renew || leaseMs! < this.#shortMs)) return;
    this.facts.world.violate('nothing is lost in calm', `${call.text}: ${lost}, with a lease of ${leaseMs} ms`);
  }

  /** A shorter lease may end in the time of a few commands. */
  get #shortMs(): number {
    return 60 + 10 * this.facts.plan.profile.network.delayMax;
  }

  onSettled(call: Call, outcome: Outcome, error: unknown): void {
    if (!this.#isOn || outcome !== 'LockStoreError') return;
    this.facts.world.violate('nothing fails in calm', `${call.text}: ${(error as Error).message}`);
  }

  onChange({ before, lock, script, key, now }: Change): void {
    if (!this.#isOn || script.name === 'inspect') return;
    for (const { attempt, deadline } of before.queue) {
      const isThere = lock.queue.of(attempt) !== undefined || lock.holds.has(attempt);
      if (isThere || script.text('attempt') === attempt) continue;
      const call = this.facts.callOf.get(attempt);
      if (!call?.isPending || call.attempt !== attempt || call.abortedAt < Infinity || deadline <= now - this.#shortMs)
        continue;
      this.facts.world.violate('no place is lost in calm', `${key}: ${call.text} by ${script.name}`);
    }
  }
}
