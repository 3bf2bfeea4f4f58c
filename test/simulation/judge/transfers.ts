import { type Call, type Held } from '../workload/call.js';
import { Judging, type Change, type Rule } from './rule.js';

/** The share of the lease within which a text is used for sure. */
const SAFE_SHARE = 0.9;

/**
 * A lock that changes hands (ADR 20): the handle counts as released, the hold goes on with its fencing token, and its text works once,
 * while the lease lasts. That nobody else is granted it meanwhile, is the rule of exclusion.
 */
export class Transfers extends Judging implements Rule {
  readonly #transferredAt = new Map<Held, number>();
  readonly #adoptedBy = new Map<Held, Call>();
  /** The attempts of transferred holds that no server has given to another attempt so far, and until when one may. */
  readonly #unused = new Map<string, number>();

  onTransferred(held: Held, wasHeld: boolean): void {
    const { now } = this.facts.world;
    this.#transferredAt.set(held, now);
    this.#unused.set(held.attempt, now + held.call.leaseMs * SAFE_SHARE);
    if (held.lock.held || wasHeld) this.#violate('the first handle counts as released', held.call, 'is held still');
  }

  onChange(change: Change): void {
    if (change.script.name === 'adopt') this.#onAdopt(change);
    if (change.script.name === 'release') this.#onRelease(change);
  }

  /** Only who adopts it may end it. */
  #onRelease({ script, before, lock, key, server }: Change): void {
    const attempt = script.text('attempt');
    const isKept = this.facts.world.now < (this.#unused.get(attempt) ?? -Infinity);
    if (!isKept || !before.holds.has(attempt) || lock.holds.has(attempt)) return;
    this.#violateAt('the store keeps it for its heir', `${server.name} ${key}: ${this.facts.who(attempt)} is released`);
  }

  /** The script makes the hold that of another attempt, and of no other token. */
  #onAdopt({ script, before, lock, key, server }: Change): void {
    const [attempt, from] = [script.text('attempt'), script.text('from')];
    const was = before.holds.get(attempt) ?? before.holds.get(from);
    const is = lock.holds.get(attempt);
    const where = `${server.name} ${key}: ${this.facts.show(server, key)}`;
    if (is) this.#unused.delete(from);
    if (is && lock.holds.has(from)) this.#violateAt('one hold at a time', where);
    if (is && is.token !== was?.token) this.#violateAt('the fencing token goes on', where);
  }

  onAdopted(from: Held, { call, lock }: Held): void {
    const other = this.#adoptedBy.get(from);
    this.#adoptedBy.set(from, call);
    if (other) this.#violate('a text works once', call, `${other.text} has adopted it before`);
    if (from.lock.held) this.#violate('the first handle counts as released', call, `${from.call.text} holds it still`);
    const [ours, theirs] = [lock.fencingTokens.join(), from.lock.fencingTokens.join()];
    if (ours !== theirs) this.#violate('the fencing token goes on', call, `has ${ours} after ${theirs}`);
    if (lock.mode !== from.lock.mode) this.#violate('the mode goes on', call, `${lock.mode} after ${from.lock.mode}`);
  }

  /** In calm, nothing but another use of the text, and the end of the lease, keeps it from working. */
  onNotAdopted(from: Held, call: Call): void {
    const { plan, world } = this.facts;
    const ageMs = world.now - this.#transferredAt.get(from)!;
    const isOnly = from.call.plan.handsOn!.length === 1;
    if (!plan.profile.isCalm || !isOnly || ageMs > from.call.leaseMs * SAFE_SHARE) return;
    this.#violate(
      'a text works while the lease lasts',
      call,
      `not after ${ageMs.toFixed(0)} of ${from.call.leaseMs} ms`,
    );
  }

  #violate(rule: string, call: Call, text: string): void {
    this.#violateAt(rule, `${call.text}: ${text}`);
  }

  #violateAt(rule: string, text: string): void {
    this.facts.world.violate(`transfer: ${rule}`, text);
  }
}
