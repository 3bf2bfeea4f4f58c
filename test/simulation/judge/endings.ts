import { type Held } from '../workload/call.js';
import { type Facts } from './facts.js';
import { type Change, type Rule } from './rule.js';

/** After this time, the caller of a release does not wait for its answer any more (lib/core/timing.ts). */
const PATIENCE_MS = 900;

/** A release that is answered within this time is sent once. */
const ONCE_MS = 95;

const CONFIRMED = ['released', 'again'];

/** The end of a lock is told as it was: held to the end, or lost before. */
export class Endings implements Rule {
  /** What the releases of an attempt were answered. */
  readonly #replies = new Map<string, string[]>();

  constructor(private readonly facts: Facts) {}

  onChange({ script, reply }: Change): void {
    if (script.name !== 'release' || this.facts.isQuorum) return;
    const attempt = script.text('attempt');
    this.#replies.set(attempt, [...(this.#replies.get(attempt) ?? []), String(reply[0])]);
  }

  onReleased(held: Held, wasHeld: boolean, tookMs: number): void {
    const { call, hold, attempt, keys } = held;
    const replies = this.#replies.get(attempt) ?? [];
    if (this.facts.isQuorum || !hold || call.plan.nested || tookMs >= PATIENCE_MS || call.process.isClosing) return;
    const isInTime = tookMs < ONCE_MS && held.wantedUntil > this.facts.world.now;
    const isAnsweredOnce = isInTime && replies.length === keys.length && !this.#isTroubled(held);
    const isGone = replies.some((reply) => !CONFIRMED.includes(reply));
    if (wasHeld && isAnsweredOnce && isGone) this.#violate('4: a loss is always reported', held, replies);
    const wasReleased = replies.filter((reply) => reply === 'released').length === keys.length;
    const wasProven = held.wantedUntil > held.releasedAt + 1;
    // A master that is none any more answers, too, and does not know the hold.
    if (this.facts.failovers.isForgotten(attempt)) return;
    if (!wasHeld && wasReleased && wasProven && call.plan.claim?.ends !== 'failed')
      this.#violate('a release is told as it was', held, replies);
  }

  /** A command may have been sent twice. */
  #isTroubled({ call, releasedAt }: Held): boolean {
    return this.facts.troubledUntil(call.process) + 5_000 >= releasedAt;
  }

  #violate(rule: string, { call, lost }: Held, replies: readonly string[]): void {
    this.facts.world.violate(rule, `${call.text}: lost ${lost}, and its releases were ${replies.join(', ')}`);
  }
}
