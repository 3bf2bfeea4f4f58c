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

  /** A nested call that nobody waited for keeps the hold that its caller has released. */
  onEvent(): void {
    for (const held of this.facts.held) {
      const outer = held.call.outer?.held;
      // A call that comes too late for the outer hold gets one of its own, which may be gone again.
      const isInside = held.attempt === '' && held.releasedAt === Infinity;
      if (outer?.hold && outer.releasedAt < Infinity && isInside) this.#checkBacked(held, outer);
    }
  }

  #checkBacked(held: Held, outer: Held): void {
    if (outer.hold!.isEnded && outer.lost === null && !held.call.process.isDead)
      return this.#violate('11: a nested call keeps the outer lock', outer, `${held.call.name} is still inside`);
    if (this.facts.isQuorum || !held.lock.held) return;
    const isBacked = held.keys.every((key) => {
      const server = this.facts.authorityOf(KEY_PREFIX + key);
      const lock = this.facts.lockOf(server, key);
      // On a cluster, each slot has an attempt of its own.
      return outer.call.granted.some((attempt) => {
        if (this.facts.isExempt(outer, server, attempt)) return true;
        return (lock.liveHold(attempt)?.deadline ?? 0) > server.nowMs;
      });
    });
    if (!isBacked)
      this.#violate('1: a belief is backed', outer, `${held.call.name} is inside, and believes to hold it`);
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
