import { TOKENS_OF_A_WRITER } from '../../../lib/core/store/lock-store.js';
import { type Call, type Held } from '../workload/call.js';
import { type Facts } from './facts.js';
import { type Rule } from './rule.js';

/** As in lib/core/timing.ts. */
const TURN_MS = 10;

/** What the store granted to a process. */
interface Turn {
  readonly token: number;
  /** On the clock of the process. */
  readonly grantedAt: number;
}

/**
 * "The calls of one process hand a write lock to each other for up to 10 ms, first in, first out": each with a greater token, of those
 * that the grant has reserved.
 */
export class HandOvers implements Rule {
  readonly #turns = new Map<string, Turn>();

  constructor(private readonly facts: Facts) {}

  onHeld(held: Held): void {
    const { hold, call, attempt } = held;
    if (!hold || this.facts.isQuorum) return;
    const now = call.process.clock.now();
    if (hold.handedOn === 0) return void this.#turns.set(attempt, { token: hold.fencingToken, grantedAt: now });
    const turn = this.#turns.get(attempt);
    // It was granted as one of several keys.
    if (!turn) return;
    const token = hold.fencingToken - turn.token;
    if (now - turn.grantedAt > TURN_MS + 1) this.#violate('a turn is short', call, `${now - turn.grantedAt} ms`);
    if (token !== hold.handedOn || token >= TOKENS_OF_A_WRITER)
      this.#violate('a turn has reserved tokens', call, `${token}`);
    for (const other of this.facts.held) {
      if (other !== held && other.attempt === attempt && other.hold && other.lock.held)
        this.#violate('one at a time', call, `${other.call.text} holds the lock`);
    }
    for (const other of this.facts.pending) this.#checkOrder(call, other);
  }

  #checkOrder(call: Call, other: Call): void {
    if (other.app !== call.app || !other.isPending || other.outer || call.outer) return;
    const [mine, its] = [call.plan, other.plan];
    const isKin = its.keys.length === 1 && its.keys[0] === mine.keys[0] && its.entry !== 'tryAcquire';
    const isAlike = textOf(its.options) === textOf(mine.options) && other.waitMs > 0;
    if (isKin && isAlike && other.startedAt < call.startedAt)
      this.#violate('first in, first out', call, `passes ${other.text}`);
  }

  #violate(rule: string, call: Call, text: string): void {
    this.facts.world.violate(`turns: ${rule}`, `${call.text}: ${text}`);
  }
}

/** What calls that hand the lock to each other have in common. */
const textOf = ({ leaseMs, fair, mode, owner, renew, holdAtLeastMs }: Call['plan']['options']): string =>
  JSON.stringify({ leaseMs, fair, mode, owner, renew, holdAtLeastMs });
