import { type Held } from '../workload/call.js';
import { type Facts, KEY_PREFIX } from './facts.js';
import { type Change, type Rule } from './rule.js';

/** Nested calls: they need no command, never write inside a reader, and keep the outer lock. */
export class Nesting implements Rule {
  constructor(private readonly facts: Facts) {}

  onChange({ script, key }: Change): void {
    if (!script.name.startsWith('acquire')) return;
    const call = this.facts.callOf.get(script.text('attempt'));
    const outer = call?.outer?.held;
    if (!call?.isPending || !outer || !this.#isInside(outer)) return;
    const isOwn = outer.keys.some((name) => KEY_PREFIX + name === key);
    if (isOwn) this.#violate('a nested call needs no command', outer, `${call.name} requests ${key}`);
  }

  onTick(): void {
    for (const held of this.facts.held) {
      const outer = held.call.outer?.held;
      if (outer) this.#checkWriter(held, outer);
      this.#checkKept(held);
    }
  }

  #checkWriter(held: Held, outer: Held): void {
    const isWriting = held.releasedAt === Infinity && held.lock.mode === 'write' && held.lock.held;
    const isShared = held.keys.some((key) => outer.keys.includes(key));
    if (isWriting && isShared && outer.lost === null && outer.lock.mode === 'read')
      this.#violate('no writer is inside a reader', outer, `${held.call.name} writes`);
  }

  /** Nobody but the holder releases a lock. */
  #checkKept({ hold, lost, releasedAt, call }: Held): void {
    if (!hold?.isReleased || lost !== null || releasedAt < Infinity || call.process.isDead) return;
    this.facts.world.violate('2: only its holder releases a lock', `${call.text} has not released it`);
  }

  #isInside({ lost, releasedAt }: Held): boolean {
    return lost === null && releasedAt === Infinity;
  }

  #violate(rule: string, { call }: Held, text: string): void {
    this.facts.world.violate(rule, `${call.text}: ${text}`);
  }
}
