import { type Facts } from './facts.js';
import { type Change, type Rule } from './rule.js';

/** An operator revokes what there was when he looked, and nothing that was granted since. */
export class Operators implements Rule {
  constructor(private readonly facts: Facts) {}

  onChange({ script, before, lock, key, now }: Change): void {
    if (script.name !== 'forceRelease') return;
    const seen = script.number('seenToken');
    for (const [attempt, { token, deadline }] of before.holds) {
      const isNew = token > seen && deadline > now;
      if (isNew && !lock.holds.has(attempt))
        this.facts.world.violate('an operator revokes what was seen', `${key}: not ${this.facts.who(attempt)}`);
    }
  }
}
