import { type Held } from '../workload/call.js';
import { type Facts } from './facts.js';
import { type Rule } from './rule.js';

/** Promise 11: the children of one hold exclude each other, and none believes to hold more than the outer hold does. */
export class Siblings implements Rule {
  constructor(private readonly facts: Facts) {}

  onHeld(next: Held): void {
    if (!this.#isNested(next)) return;
    for (const held of this.facts.held) {
      if (held === next || held.call.outer !== next.call.outer || held.releasedAt < Infinity) continue;
      const shared = next.keys.find((key) => held.keys.includes(key));
      if (shared === undefined || !this.#isNested(held) || this.#mayShare(held, next)) continue;
      const text = `${next.call.text} enters ${shared} beside ${held.call.text}, inside ${next.call.outer!.text}`;
      this.facts.world.violate('11: siblings exclude each other', text);
    }
  }

  onEvent(): void {
    for (const held of this.facts.held) {
      if (!this.#isNested(held) || held.releasedAt < Infinity || !held.lock.held) continue;
      const outer = held.call.outer!.held!;
      // Nobody waited for the nested call, which keeps the hold.
      if (outer.releasedAt < Infinity) continue;
      if (held.lock.remainingMs <= outer.lock.remainingMs) continue;
      held.releasedAt = this.facts.world.now;
      const text = `${held.call.text} believes to hold for longer than ${outer.call.text}`;
      this.facts.world.violate('11: a nested hold ends with the outer one', text);
    }
  }

  /** It holds nothing of its own: its lock is that of the outer call. */
  #isNested({ call, hold }: Held): boolean {
    return call.outer?.held !== undefined && call.outer?.held !== null && hold === undefined;
  }

  /** Children that read may share, unless the outer hold is one permit of a semaphore, or a child counts permits. */
  #mayShare(a: Held, b: Held): boolean {
    const permits = [a, b, a.call.outer!.held!].some(({ call }) => (call.plan.options.permits ?? 0) > 0);
    return a.lock.mode === 'read' && b.lock.mode === 'read' && !permits;
  }
}
