import { type Call, type Outcome } from '../workload/call.js';
import { type Facts } from './facts.js';
import { type Change, type Rule } from './rule.js';

/** A deadline that is late already waits for an answer that may have arrived (`READ_MS`); and timers are late, too. */
const LATE_MS = 60;

/** Once a call has heard that its lock is busy, it waits for `waitMs` and no longer. */
export class WaitLimits implements Rule {
  /** When the first reply that a lock is busy was sent to a call. */
  readonly #busyAt = new Map<Call, number>();

  constructor(private readonly facts: Facts) {}

  onChange({ script, reply }: Change): void {
    if (!this.facts.plan.profile.isCalm || this.facts.isQuorum || reply[0] !== 'busy') return;
    const call = this.facts.callOf.get(script.text('attempt'));
    if (call?.isPending && !this.#busyAt.has(call)) this.#busyAt.set(call, this.facts.world.now);
  }

  onSettled(call: Call, outcome: Outcome): void {
    this.#check(call, outcome);
    this.#busyAt.delete(call);
  }

  onTick(): void {
    for (const call of this.#busyAt.keys()) if (this.#check(call, 'waits still')) this.#busyAt.delete(call);
  }

  #check(call: Call, outcome: Outcome): boolean {
    const busyAt = this.#busyAt.get(call);
    const { world, plan } = this.facts;
    if (busyAt === undefined || call.process.isDead) return false;
    const waitedMs = call.process.clock.now() - call.startedMono;
    const sinceHeardMs = world.now - busyAt - 2 * plan.profile.network.delayMax - LATE_MS;
    if (sinceHeardMs <= 0 || waitedMs <= call.waitMs + LATE_MS) return false;
    const text = `${call.text}: ${outcome} after ${waitedMs.toFixed(0)} of ${call.waitMs} ms, and the lock was known to be busy`;
    world.violate('a busy lock is waited for no longer than waitMs', text);
    return true;
  }
}
