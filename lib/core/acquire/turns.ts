import { waitTimeoutError } from '../error-texts.js';
import { type StoreHold } from '../hold/store-hold.js';
import { remainingOf } from '../hold/lease.js';
import { type LockError } from '../lock.errors.js';
import { type ScheduledCall } from '../timer-queue.js';
import { TURN_MS } from '../timing.js';
import { TOKENS_OF_A_WRITER } from '../store/lock-store.js';
import { AcquireCall } from './acquire-call.js';
import { Acquisition } from './acquisition.js';
import { type AcquireContext } from './attempts.js';
import { type LimitedCall, Limits } from './limits.js';
import { eventOf, type LockRequest, nameOf, waitedMsOf } from './request.js';

/** The collaborators of `Turns`. */
interface TurnContext extends AcquireContext {
  /** Whether the store reserves tokens, so that a hold can be handed on. */
  readonly reservesTokens: boolean;
  /** Makes the hold of a call that gets the lock from another one, whose hold ends. */
  handOn(hold: StoreHold, to: AcquireCall, serverTimeMs: number): StoreHold;
}

/**
 * Lets the calls of this process that want one key take turns: one of them asks the store, and the others wait here, first in, first
 * out. A call that releases the lock hands it to the next one without a command, in the same hold of the store, while its lease
 * is proven: for `TURN_MS` after the grant, and for as many calls as the grant has reserved tokens (ADR 17). Then the next call
 * asks the store, behind the waiters of other processes.
 */
export class Turns {
  readonly #byKey = new Map<string, Turn>();
  #isClosing = false;

  constructor(private readonly context: TurnContext) {}

  /** How many calls wait here. */
  get waiting(): number {
    let waiting = 0;
    for (const turn of this.#byKey.values()) waiting += turn.waiting;
    return waiting;
  }

  /** Begins a call, and returns it. */
  begin(request: LockRequest): AcquireCall {
    const turn = this.context.reservesTokens && takesTurns(request) ? this.#turnOf(request) : null;
    const call = new AcquireCall(request, turn, this.context.clock.now());
    if (turn) turn.begin(call);
    else void new Acquisition(this.context, call);
    return call;
  }

  /** Hands a hold that its caller releases to the next call; returns false if it has to be released in the store. */
  handOn(hold: StoreHold): boolean {
    return !this.#isClosing && this.#byKey.get(hold.key)?.handOn(hold) === true;
  }

  /** A hold has ended, or was lost. Its release, if there is one, has been sent. */
  onEnded(hold: StoreHold): void {
    this.#byKey.get(hold.key)?.onEnded(hold);
  }

  /** Ends all calls that wait here. */
  close(error: LockError): void {
    this.#isClosing = true;
    for (const turn of this.#byKey.values()) turn.cancel(error);
  }

  /** The turn of a key; undefined: the leases of its calls are of another length. */
  #turnOf({ name: key, options: { leaseMs } }: LockRequest): Turn | null {
    let turn = this.#byKey.get(key);
    if (!turn) {
      turn = new Turn(this.context, leaseMs, () => this.#byKey.delete(key));
      this.#byKey.set(key, turn);
    }
    return turn.leaseMs === leaseMs ? turn : null;
  }
}

/**
 * Whether a call may get a hold that the store granted to another one: if it asks for what that one asked for, and gets nothing of
 * its own from the store. A lease that nobody renews may be too short for the next call.
 */
const takesTurns = ({ keys, callerKeys, claim, options }: LockRequest): boolean =>
  options.mode === 'write' &&
  options.fair === true &&
  options.waitMs > 0 &&
  options.renew &&
  options.owner === undefined &&
  options.holdAtLeastMs === 0 &&
  keys.length === 1 &&
  !callerKeys &&
  !claim;

/** A call that waits behind others of its process. */
class Waiter implements LimitedCall {
  readonly #limits: Limits;

  constructor(
    private readonly turn: Turn,
    readonly call: AcquireCall,
    readonly nr: number,
    { timers }: AcquireContext,
    isAnswered: boolean,
  ) {
    this.#limits = new Limits(timers, call, this, isAnswered);
  }

  isAnswerAwaited(): boolean {
    return false;
  }

  /** The call that asks the store has learnt that the lock is busy. */
  onAnswer(): void {
    this.#limits.onFirstAnswer();
  }

  onLimit(): void {
    this.turn.onLimit(this);
  }

  cancel(error: unknown): void {
    this.turn.leave(this, error);
  }

  stop(): void {
    this.#limits.stop();
  }
}

/** The calls of this process that want one key, and the hold that they hand on. */
export class Turn {
  /** The call that asks the store. */
  #contender: Acquisition | null = null;
  /** Whether the lock was held by anybody since the first call came: a call that waits has nothing to learn from an answer. */
  #wasBusy = false;
  /** What the turn hands on; null after its end. */
  #hold: StoreHold | null = null;
  readonly #waiters = new Set<Waiter>();
  #lastNr = 0;
  /** The last waiter that this turn may serve: others, who wait elsewhere, follow behind it. */
  #servesUpTo = Infinity;
  #endsAt = -Infinity;
  #serverTimeMs = 0;
  /** How much of its lease a hold needs to be handed on. */
  #leastProvenMs = Infinity;
  #end: ScheduledCall | null = null;

  constructor(
    private readonly context: TurnContext,
    readonly leaseMs: number,
    private readonly onEmpty: () => void,
  ) {}

  get waiting(): number {
    return this.#waiters.size;
  }

  begin(call: AcquireCall): void {
    if (this.#contender || this.#isUnderWay || this.#waiters.size > 0) this.#wait(call);
    else this.#ask(call);
  }

  /** The call that asks the store has learnt that the lock is busy. */
  onBusy(): void {
    this.#wasBusy = true;
    for (const waiter of this.#waiters) waiter.onAnswer();
  }

  /** The store has granted the lock. Those who came until now are served, and more of them if nobody waits elsewhere. */
  onGranted(hold: StoreHold, serverTimeMs: number, wasBusy: boolean): void {
    this.#contender = null;
    this.onBusy();
    this.#hold = hold;
    this.#serverTimeMs = serverTimeMs;
    this.#servesUpTo = wasBusy ? this.#lastNr : Infinity;
    this.#endsAt = this.context.clock.now() + TURN_MS;
    this.#leastProvenMs = hold.provenMs / 2;
    this.#end?.cancel();
    this.#end = null;
    if (this.#waiters.size > 0) this.#awaitEnd();
  }

  /** Returns the call for which the acquisition of one that was cancelled goes on; null if there is none. */
  successor(): AcquireCall | null {
    return this.#takeFirst();
  }

  /** The call that asked the store has ended without the lock. */
  onFailed(): void {
    this.#contender = null;
    this.#goOn();
  }

  handOn(hold: StoreHold): boolean {
    if (hold !== this.#hold || !this.#mayHandOn(hold)) return false;
    const [first] = this.#waiters;
    if (!first || first.nr > this.#servesUpTo) return false;
    this.#remove(first);
    this.#hold = this.context.handOn(hold, first.call, this.#serverTimeMs);
    return true;
  }

  onEnded(hold: StoreHold): void {
    if (hold !== this.#hold) return;
    this.#hold = null;
    this.#goOn();
  }

  onLimit(waiter: Waiter): void {
    const { request } = waiter.call;
    const now = this.context.timers.now();
    const holder = this.#hold?.terms.holder;
    const ahead = [...this.#waiters].indexOf(waiter) + (this.#contender ? 1 : 0);
    const error = this.#contender
      ? this.#contender.limitError(request)
      : waitTimeoutError(nameOf(request), waitedMsOf(request, now), { holder, ahead });
    this.context.onTimeout(request, error);
    this.leave(waiter, error);
  }

  leave(waiter: Waiter, error: unknown): void {
    this.#remove(waiter);
    this.context.fail(waiter.call, error);
  }

  cancel(error: LockError): void {
    for (const waiter of this.#waiters) this.leave(waiter, error);
  }

  #wait(call: AcquireCall): void {
    this.#lastNr += 1;
    call.keepContext();
    call.hasWaited = true;
    const ahead = this.#waiters.size;
    this.#waiters.add(new Waiter(this, call, this.#lastNr, this.context, this.#wasBusy));
    const holder = this.#hold?.terms.holder;
    this.context.events.emit('waiting', () => ({ ...eventOf(call.request), ahead, holder }));
    if (this.#hold) this.#awaitEnd();
  }

  #ask(call: AcquireCall): void {
    this.#contender = new Acquisition(this.context, call, this.#wasBusy);
  }

  /** The next call asks the store, unless it may soon be handed the lock. */
  #goOn(): void {
    if (this.#contender || this.#isUnderWay) return;
    const next = this.#takeFirst();
    if (next) this.#ask(next);
    else if (!this.#hold) this.#close();
  }

  /** Whether the hold may still be handed on. */
  get #isUnderWay(): boolean {
    return this.#hold !== null && this.context.clock.now() < this.#endsAt;
  }

  #mayHandOn(hold: StoreHold): boolean {
    return (
      this.#isUnderWay &&
      hold.handedOn < TOKENS_OF_A_WRITER - 1 &&
      remainingOf(hold, this.context.clock) >= this.#leastProvenMs &&
      hold.isAsGranted
    );
  }

  /** While this process holds the lock for longer, the next call waits where the other processes do. */
  #awaitEnd(): void {
    this.#end ??= this.context.timers.schedule(this.#endsAt, () => {
      this.#end = null;
      this.#goOn();
    });
  }

  #takeFirst(): AcquireCall | null {
    const [first] = this.#waiters;
    if (!first) return null;
    this.#remove(first);
    return first.call;
  }

  #remove(waiter: Waiter): void {
    this.#waiters.delete(waiter);
    waiter.stop();
  }

  #close(): void {
    this.#end?.cancel();
    this.onEmpty();
  }
}
