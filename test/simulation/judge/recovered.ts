import { type Call, type Outcome } from '../workload/call.js';
import { type Facts } from './facts.js';
import { type Rule } from './rule.js';

/** When the last fault is over for a while, no call fails because of Redis any more. */
export class Recovered implements Rule {
  constructor(private readonly facts: Facts) {}

  onSettled(call: Call, outcome: Outcome, error: unknown): void {
    // A packet that is sent again may take longer than a command.
    if (outcome !== 'LockStoreError' || this.facts.plan.profile.network.resend > 0) return;
    const { process, startedAt } = call;
    const wellMs = startedAt - this.facts.recoveredAt(process);
    if (wellMs <= 0) return;
    const text = `${call.text}, ${wellMs.toFixed(0)} ms after all is well: ${(error as Error).message}`;
    this.facts.world.violate('nothing fails while Redis answers', text);
  }
}
