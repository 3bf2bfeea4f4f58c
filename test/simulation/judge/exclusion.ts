import { type Facts } from './facts.js';
import { type Change, type NewGrant, type Rule } from './rule.js';

/** Promise 1, by the clock of the server: readers share, the holds of one named owner share, nobody else does. */
export class Exclusion implements Rule {
  constructor(private readonly facts: Facts) {}

  onChange({ server, key, live }: Change): void {
    const writer = live.find(([, { mode }]) => mode === 'write');
    if (!writer || live.length === 1) return;
    const ownerOf = ([attempt, { owner }]: Change['live'][number]): string => owner ?? attempt;
    if (live.every((one) => ownerOf(one) === ownerOf(writer))) return;
    this.facts.world.violate('1: exclusion', `${server.name} ${key}: ${this.facts.show(server, key)}`);
  }

  /** The readers of a semaphore take no more permits than there are, those included that were there before. */
  onGrant({ server, key, live, before, now, attempt, hold, script }: NewGrant): void {
    const waited = before.queue.find((waiter) => waiter.attempt === attempt);
    const asked = script.name.startsWith('acquire') && script.text('attempt') === attempt;
    const permits = waited?.permits ?? (asked ? script.number('permits') : 0);
    if (hold.mode !== 'read' || permits === 0) return;
    // The children of a write hold are counted by nobody.
    if (live.some(([other, { mode }]) => other !== attempt && mode === 'write')) return;
    const wasThere = (other: string): boolean => (before.holds.get(other)?.deadline ?? 0) > now;
    const readers = live.filter(([other, { token }]) => other === attempt || token < hold.token || wasThere(other));
    // What the call says, whatever the server knows of it.
    const takeOf = ([other, { take }]: Change['live'][number]): number =>
      this.facts.callOf.get(other)?.plan.options.take ?? take;
    if (readers.reduce((sum, one) => sum + takeOf(one), 0) > permits) {
      this.facts.world.violate('1: permits', `${key} has ${permits}: ${this.facts.show(server, key)}`);
    }
  }
}
