import { FreshMap } from '../fresh-map.js';
import { type Hold } from '../hold/hold.js';
import { type StoreHold } from '../hold/store-hold.js';
import { type LockError } from '../lock.errors.js';
import { AcquireCall } from './acquire-call.js';
import { Acquisition } from './acquisition.js';
import { InstanceGates } from './instance-gates.js';
import { type LockRequest } from './request.js';
import { Turn, type TurnContext } from './turn.js';

/**
 * Lets the calls of this process that want one key take turns: one of them asks the store, and the others wait here, first in, first
 * out. A call that releases the lock hands it to the next one without a command, in the same hold of the store, while its lease
 * is proven: for `TURN_MS` after the grant, and for as many calls as the grant has reserved tokens (ADR 17). Then the next call
 * asks the store, behind the waiters of other processes. Calls with `perInstance` wait at their gates instead.
 */
export class Turns {
  readonly #byKey = new FreshMap<string, Turn>();
  readonly #gates: InstanceGates;
  #isClosing = false;
  /** When messages of the store were last missed. */
  #missedAt = -Infinity;

  constructor(
    private readonly context: TurnContext,
    /** Whether the store reserves tokens, so that a hold can be handed on. */
    private readonly reservesTokens: boolean,
  ) {
    this.#gates = new InstanceGates(context);
  }

  /** How many calls wait here. */
  get waiting(): number {
    let { waiting } = this.#gates;
    for (const turn of this.#byKey.values()) waiting += turn.waiting;
    return waiting;
  }

  /** How many calls wait here for this key. */
  waitingFor(key: string): number {
    return (this.#byKey.get(key)?.waiting ?? 0) + this.#gates.waitingFor(key);
  }

  /** Begins a call; resolves with what `toResult` makes of its hold. */
  begin<T>(request: LockRequest, toResult: (hold: StoreHold) => T): Promise<T> {
    if (request.options.perInstance > 0) return this.#gates.begin(request, toResult);
    const turn = this.reservesTokens && takesTurns(request) ? this.#turnOf(request) : null;
    const call = new AcquireCall(request, turn, this.context.clock.now(), toResult);
    if (turn) turn.begin(call);
    else void new Acquisition(this.context, call);
    return call.result as Promise<T>;
  }

  /** Hands a hold that its caller releases to the next call; returns false if it has to be released in the store. */
  handOn(hold: StoreHold): boolean {
    // Nobody knows whether a lock from before that was revoked.
    if (this.#isClosing || hold.sentAt < this.#missedAt) return false;
    return this.#byKey.get(hold.key)?.handOn(hold) === true;
  }

  onMessagesMissed(): void {
    this.#missedAt = this.context.clock.now();
  }

  /** A hold has ended, or was lost. Its release, if there is one, has been sent. */
  onEnded(hold: StoreHold): void {
    this.#byKey.get(hold.key)?.onEnded(hold);
    this.#gates.onEnded(hold);
  }

  /** A lock is held for longer than a turn. There may be thousands of these, which nobody else wants. */
  forget({ key }: Hold): void {
    this.#byKey.get(key)?.closeIfOver();
  }

  /** Ends all calls that wait here. */
  close(error: LockError): void {
    this.#isClosing = true;
    for (const turn of this.#byKey.values()) turn.cancel(error);
    this.#gates.close(error);
  }

  /** The turn of a key; undefined: the leases of its calls are of another length. */
  #turnOf({ name: key, options: { leaseMs } }: LockRequest): Turn | null {
    let turn = this.#byKey.get(key);
    if (!turn) {
      turn = new Turn(this.context, key, leaseMs, this.#byKey);
      this.#byKey.set(key, turn);
    }
    return turn.leaseMs === leaseMs ? turn : null;
  }
}

/**
 * Whether a call may get a hold that the store granted to another one: if it asks for what that one asked for, and gets nothing of
 * its own from the store. A lease that nobody renews may be too short for the next call.
 */
const takesTurns = ({ keys, callerKeys, isPart, claim, options }: LockRequest): boolean =>
  options.mode === 'write' &&
  options.fair === true &&
  options.waitMs > 0 &&
  options.maxWaiters === 0 &&
  options.renew &&
  options.owner === undefined &&
  options.holdAtLeastMs === 0 &&
  keys.length === 1 &&
  !callerKeys &&
  !isPart &&
  !claim;
