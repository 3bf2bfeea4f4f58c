import { type Call, type Outcome } from '../workload/call.js';
import { type SimProcess } from '../world/sim-process.js';
import { type Facts } from './facts.js';
import { type Rule } from './rule.js';

/** A given client whose server has become a replica is left after three seconds of refusals (lib/redis/timing.ts). */
export const REPLICA_MS = 4_000;

/** When the last fault is over for a while, no call fails because of Redis any more. */
export class Recovered implements Rule {
  readonly #replicaSince = new Map<SimProcess, number>();

  constructor(private readonly facts: Facts) {}

  onSettled(call: Call, outcome: Outcome, error: unknown): void {
    // A packet that is sent again may take longer than a command.
    if (outcome !== 'LockStoreError' || this.facts.plan.profile.network.resend > 0) return;
    const { process, startedAt, plan } = call;
    const wellMs = startedAt - this.facts.recoveredAt(process);
    const isForeign = this.facts.network.servers.some(({ model }) =>
      plan.keys.some((key) => model.strangers.has(`lock:${key}`)),
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
