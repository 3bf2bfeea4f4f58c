import { type Call, type Outcome } from '../workload/call.js';
import { type Facts } from './facts.js';
import { type Rule } from './rule.js';

/** When the last fault is over for a while, no call fails because of Redis any more. */
export class Recovered implements Rule {
  constructor(private readonly facts: Facts) {}

  onSettled(call: Call, outcome: Outcome, error: unknown): void {
    // A packet that is sent again may take longer than a command.
    if (outcome !== 'LockStoreError' || this.facts.plan.profile.network.resend > 0) return;
    const { process, startedAt, plan } = call;
    const wellMs = startedAt - this.facts.recoveredAt(process);
    const isForeign = this.facts.network.servers.some(({ model }) =>
      plan.keys.some((key) => model.strangers.has(`lock:${key}`)),
    );
    if (wellMs <= 0 || isForeign) return;
    const text = `${call.text}, ${wellMs.toFixed(0)} ms after all is well: ${(error as Error).message}`;
    this.facts.world.violate('nothing fails while Redis answers', text);
  }
}
