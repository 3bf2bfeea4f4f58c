import { type Facts } from './facts.js';
import { type Change, type Rule } from './rule.js';

/**
 * A message, a new connection and a renewal; with a second for each sentinel that hangs, and up to two until they have told
 * each other.
 */
const MOVE_MS = 6_000;

/** "As soon as one of the sentinels names another master, all connections move there." While no network fails. */
export class Moved implements Rule {
  readonly #isOn: boolean;

  constructor(private readonly facts: Facts) {
    const { topology, rates } = facts.plan.profile;
    this.#isOn = topology === 'sentinel' && rates.cut === undefined && rates.stop === undefined;
  }

  onChange({ server, key, script }: Change): void {
    const { world, failovers } = this.facts;
    if (!this.#isOn || this.facts.authorityOf(key) === server) return;
    const sinceMs = world.now - Math.max(failovers.promotedAt, failovers.sentinelsUntil);
    if (sinceMs <= MOVE_MS) return;
    const text = `${script.process.name} still sends ${script.name} to ${server.name}, ${sinceMs.toFixed(0)} ms after the failover`;
    world.violate('16: connections move to the new master', text);
  }
}
