import { type StoreHold } from '../../../lib/core/hold/store-hold.js';
import { TOKENS_OF_A_WRITER } from '../../../lib/core/store/lock-store.js';
import { type Call, type Held } from '../workload/call.js';
import { type Facts } from './facts.js';
import { type Rule, type SentCommand } from './rule.js';

/** As in lib/core/timing.ts. */
export const TURN_MS = 10;

/** A timer may be so late; as in `Settling`. */
const LATE_MS = 4;

/** What the store granted to a process, which hands it on. */
interface Turn {
  readonly token: number;
  /** On the clock of the process. */
  readonly grantedAt: number;
  readonly provenMs: number;
  /** How many calls there were at the grant; none that came later is served if the grant had to wait for others. */
  readonly callsBefore: number;
  readonly hadToWait: boolean;
  /** The call that has the lock now. */
  call: Call;
  handedOn: number;
}

/** What is known of the commands of an attempt. */
interface Commands {
  underWay: number;
  /** One of them had no answer, and may still be carried out. */
  isUnanswered: boolean;
  wasBusy: boolean;
  /** The hold was renewed, extended or downgraded, or that was tried. */
  isTouched: boolean;
}

/** Whether the lock of one key may be handed on to a call (ADR 17). On a cluster, a call may ask for several keys one by one. */
export function takesTurns({ plan, waitMs }: Call): boolean {
  const { mode = 'write', fair = true, renew = true, owner, holdAtLeastMs = 0 } = plan.options;
  const isPlain = owner === undefined && holdAtLeastMs === 0 && plan.claim === undefined;
  return mode === 'write' && fair === true && renew && waitMs > 0 && isPlain;
}

/** Whether calls of one process take turns with each other. */
const areKin = (a: Call, b: Call): boolean =>
  a.app === b.app && a.leaseMs === b.leaseMs && takesTurns(a) && takesTurns(b);

/**
 * "The calls of one process hand a write lock to each other for up to 10 ms, first in, first out": each with a greater token, of those
 * that the grant has reserved, while half of its lease is proven, and while the store has the hold as it granted it.
 */
export class HandOvers implements Rule {
  readonly #turns = new Map<string, Turn>();
  readonly #commands = new Map<string, Commands>();
  /** The place of each call among all of them. */
  readonly #places = new Map<Call, number>();
  readonly #failed = new Set<Call>();

  constructor(private readonly facts: Facts) {}

  onCall(call: Call): void {
    this.#places.set(call, this.#places.size);
  }

  onFailed(call: Call): void {
    this.#failed.add(call);
  }

  onSent({ name, attempt, app }: SentCommand): void {
    const commands = this.#commandsOf(attempt);
    if (name === 'acquire') commands.underWay += 1;
    else if (name !== 'release') commands.isTouched = true;
    else if (app.holdOf(attempt) && !app.holdOf(attempt)!.isOver)
      this.#violate('a lock is released when nobody has it', this.facts.callOf.get(attempt)!, 'still holds it');
  }

  onAnswered(attempt: string, outcome: string | null): void {
    const commands = this.#commandsOf(attempt);
    commands.underWay -= 1;
    commands.isUnanswered ||= outcome === null;
    commands.wasBusy ||= outcome === 'busy';
  }

  onAcquired(call: Call, hold: StoreHold): void {
    if (this.facts.isQuorum) return;
    if (hold.handedOn === 0) this.#begin(call, hold);
    else this.#onHandedOn(call, hold);
  }

  /** A hold that its process does not know is not told of its loss. */
  onHeld({ call, hold, lock, attempt }: Held): void {
    if (this.#turns.has(attempt) && !hold && lock.held)
      this.#violate('the process knows its hold', call, 'holds it without');
  }

  #begin(call: Call, { attempt, fencingToken: token, provenMs }: StoreHold): void {
    const [grantedAt, callsBefore] = [call.process.clock.now(), this.#places.size];
    const hadToWait = this.#commandsOf(attempt).wasBusy;
    this.#turns.set(attempt, { token, grantedAt, provenMs, callsBefore, hadToWait, call, handedOn: 0 });
  }

  #onHandedOn(call: Call, hold: StoreHold): void {
    const turn = this.#turns.get(hold.attempt);
    if (!turn) return this.#violate('a turn begins with a grant', call, 'was handed what nobody was granted');
    this.#checkTurn(turn, call, hold);
    this.#checkHold(turn, call, hold);
    this.#checkWaits(turn, call);
    for (const other of this.facts.pending) this.#checkOrder(call, other, hold.key);
    turn.call = call;
    turn.handedOn = hold.handedOn;
  }

  #checkTurn(turn: Turn, call: Call, hold: StoreHold): void {
    const ageMs = call.process.clock.now() - turn.grantedAt;
    if (ageMs > TURN_MS) this.#violate('a turn is short', call, `${ageMs.toFixed(1)} ms`);
    const nth = hold.fencingToken - turn.token;
    if (nth <= turn.handedOn || nth >= TOKENS_OF_A_WRITER)
      this.#violate('a turn has reserved tokens', call, `${nth} after ${turn.handedOn}`);
    if (turn.hadToWait && this.#places.get(call)! >= turn.callsBefore)
      this.#violate('a turn for which others wait serves whom it found', call, 'came later');
    if (!areKin(turn.call, call)) this.#violate('only calls that ask for the same', call, `not as ${turn.call.text}`);
    if (call.process.isClosing) this.#violate('nothing is handed on at a shutdown', call, 'was handed the lock');
  }

  #checkHold(turn: Turn, call: Call, { attempt, provenMs, mode }: StoreHold): void {
    const { underWay, isUnanswered, isTouched } = this.#commandsOf(attempt);
    if (provenMs < turn.provenMs / 2 - 0.001 || provenMs <= 0)
      this.#violate('half of the lease is proven', call, `${provenMs.toFixed(1)} of ${turn.provenMs.toFixed(1)} ms`);
    if (isTouched || mode !== 'write') this.#violate('a hold is handed on as it was granted', call, `to ${mode}`);
    if (underWay > 0 || isUnanswered) this.#violate('all is answered', call, `${underWay} under way`);
    for (const other of this.facts.held) {
      if (
        other.attempt === attempt &&
        other.call !== call &&
        (other.releasedAt === Infinity || this.#isInside(other.call))
      )
        this.#violate('one at a time', call, `${other.call.text} has not released it`);
    }
  }

  /** Whether a nested call is at work in the hold of this one. */
  #isInside(outer: Call): boolean {
    return [...this.facts.held].some(
      ({ call, hold, releasedAt, lock }) => call.outer === outer && !hold && releasedAt === Infinity && lock.held,
    );
  }

  /** The lock is known to be busy since the grant, so `waitMs` counts. */
  #checkWaits({ grantedAt }: Turn, call: Call): void {
    const { process, startedMono, startedAt, waitMs } = call;
    const lateMs = process.clock.now() - Math.max(startedMono + waitMs, grantedAt);
    if (lateMs <= LATE_MS || process.stops.some(({ to }) => to >= startedAt)) return;
    this.#violate('nobody waits for longer than waitMs', call, `was handed the lock ${lateMs.toFixed(1)} ms later`);
  }

  /** A call that has asked the store is no longer in the row. */
  #checkOrder(call: Call, other: Call, key: string): void {
    const isOlder = this.#places.get(other)! < this.#places.get(call)! && other.startedAt < this.facts.world.now;
    if (!isOlder || other.outer || other.granted.length > 0 || other.attempts.length > 0 || this.#failed.has(other))
      return;
    if (other.plan.keys.join() === key && areKin(call, other))
      this.#violate('first in, first out', call, `passes ${other.text}`);
  }

  #commandsOf(attempt: string): Commands {
    const known = this.#commands.get(attempt);
    if (known) return known;
    const commands = { underWay: 0, isUnanswered: false, wasBusy: false, isTouched: false };
    this.#commands.set(attempt, commands);
    return commands;
  }

  #violate(rule: string, call: Call, text: string): void {
    this.facts.world.violate(`turns: ${rule}`, `${call.text}: ${text}`);
  }
}
