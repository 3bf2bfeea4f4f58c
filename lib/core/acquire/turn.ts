import { waitTimeoutError } from '../busy-errors.js';
import { FreshMap } from '../fresh-map.js';
import { type Moment, moment, remainingAt } from '../hold/lease.js';
import { type Grant } from '../hold/hold-terms.js';
import { type StoreHold } from '../hold/store-hold.js';
import { type LockError } from '../lock.errors.js';
import { nameOfHolder } from '../store/holder-text.js';
import { TOKENS_OF_A_WRITER } from '../store/lock-store.js';
import { type ScheduledCall } from '../timer-queue.js';
import { TURN_MS } from '../timing.js';
import { type AcquireCall, type TurnOfCall } from './acquire-call.js';
import { Acquisition } from './acquisition.js';
import { type AcquireContext } from './attempts.js';
import { type LocalQueue, LocalWaiter } from './local-waiter.js';
import { eventOf, grantOf, nameOf, waitedMsOf } from './request.js';

/** The collaborators of a `Turn`. */
export interface TurnContext extends AcquireContext {
  /** Makes the hold of a call that gets the lock from another one, whose hold ends; and ends the call with it. */
  handOn(hold: StoreHold, to: AcquireCall, grant: Grant): StoreHold;
}

/** A hold is handed on only when each command of its attempt was answered. */
const isAnswered = (): boolean => false;

/** A call that waits for its turn, with its number among all that have waited. */
class TurnWaiter extends LocalWaiter {
  constructor(
    readonly nr: number,
    ...rest: ConstructorParameters<typeof LocalWaiter>
  ) {
    super(...rest);
  }
}

/** The calls of this process that want one key, and the hold that they hand on. */
export class Turn implements TurnOfCall, LocalQueue {
  /** The call that asks the store. */
  #contender: Acquisition | null = null;
  /** Whether the lock was held by anybody since the first call came: a call that waits has nothing to learn from an answer. */
  #wasBusy = false;
  /** What the turn hands on; null after its end. */
  #hold: StoreHold | null = null;
  /** In their order. Most turns have one call. */
  #waiters: Set<TurnWaiter> | null = null;
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
    private readonly key: string,
    readonly leaseMs: number,
    /** All turns of the module. This one leaves them when nobody wants the key any more. */
    private readonly turns: Pick<FreshMap<string, Turn>, 'delete'>,
  ) {}

  get waiting(): number {
    return this.#waiters?.size ?? 0;
  }

  begin(call: AcquireCall): void {
    if (this.#contender || this.#isUnderWay || this.waiting > 0) this.#wait(call);
    else this.#ask(call);
  }

  /** The call that asks the store has learnt that the lock is busy. */
  onBusy(): void {
    if (this.#wasBusy) return;
    this.#wasBusy = true;
    this.#waiters?.forEach((waiter) => waiter.onAnswer());
  }

  /** The store has granted the lock. Those who came until now are served, and more of them if nobody waits elsewhere. */
  onGranted(hold: StoreHold, serverTimeMs: number, wasBusy: boolean): void {
    this.#contender = null;
    this.onBusy();
    this.#hold = hold;
    this.#serverTimeMs = serverTimeMs;
    this.#servesUpTo = wasBusy ? this.#lastNr : Infinity;
    this.#endsAt = this.context.clock.now() + TURN_MS;
    // Not of what is left now: a listener may have used up the rest of it.
    this.#leastProvenMs = (hold.deadline - hold.sentAt) / 2;
    this.#end?.cancel();
    this.#end = null;
    if (this.waiting > 0) this.#awaitEnd();
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
    if (hold !== this.#hold || this.waiting === 0) return false;
    const now = moment(this.context.clock);
    if (!this.#mayHandOn(hold, now)) return false;
    const first = this.#first();
    if (!first || first.nr > this.#servesUpTo) return false;
    this.#remove(first);
    this.#hold = this.context.handOn(hold, first.call, this.#grantOf(hold, first.call, now));
    return true;
  }

  /** The next call gets the hold of the store as it is, with the next token. */
  #grantOf(hold: StoreHold, { request }: AcquireCall, now: Moment): Grant {
    return grantOf(request, {
      holds: hold.refs,
      attempt: hold.attempt,
      handedOn: hold.handedOn + 1,
      fire: undefined,
      lease: { deadline: hold.deadline, wallDeadline: hold.wallDeadline },
      sent: now,
      receivedAt: now,
      serverTimeMs: this.#serverTimeMs,
      unanswered: isAnswered,
    });
  }

  onEnded(hold: StoreHold): void {
    if (hold !== this.#hold) return;
    this.#hold = null;
    this.#goOn();
  }

  /** Leaves all turns if nobody wants the key, and whoever comes now has to ask the store. */
  closeIfOver(): void {
    if (this.#contender || this.#isUnderWay || this.waiting > 0) return;
    this.#hold = null;
    this.#closeIfUnused();
  }

  onLimit(waiter: TurnWaiter): void {
    const { request } = waiter.call;
    const now = this.context.timers.now();
    const ahead = this.#aheadOf(waiter);
    const error = this.#contender
      ? this.#contender.limitError(request, ahead)
      : waitTimeoutError(nameOf(request), waitedMsOf(request, now), { holder: this.#hold?.terms.holder, ahead });
    // Before a listener may cancel it, or release the lock.
    this.#remove(waiter);
    this.context.onTimeout(request, error);
    this.#fail(waiter, error);
  }

  leave(waiter: TurnWaiter, error: unknown): void {
    this.#remove(waiter);
    this.#fail(waiter, error);
  }

  #fail({ call }: TurnWaiter, error: unknown): void {
    this.context.fail(call, error);
    this.#closeIfUnused();
  }

  cancel(error: LockError): void {
    this.#waiters?.forEach((waiter) => this.leave(waiter, error));
  }

  #wait(call: AcquireCall): void {
    this.#lastNr += 1;
    call.keepContext();
    call.hasWaited = true;
    const waiter = new TurnWaiter(this.#lastNr, this, call, this.context.timers, this.#wasBusy);
    const ahead = this.waiting + (this.#contender ? 1 : 0);
    (this.#waiters ??= new Set()).add(waiter);
    const holder = this.#hold?.terms.holder;
    this.context.events.emit('waiting', () => ({ ...eventOf(call.request), ahead, holder: nameOfHolder(holder) }));
    if (this.#hold && !this.#contender && this.waiting > 0) this.#awaitEnd();
  }

  /** How many calls of this process come before it. Those whose time is up are mostly the first ones. */
  #aheadOf(waiter: TurnWaiter): number {
    let ahead = this.#contender ? 1 : 0;
    for (const other of this.#waiters ?? []) {
      if (other === waiter) break;
      ahead += 1;
    }
    return ahead;
  }

  #ask(call: AcquireCall): void {
    this.#contender = new Acquisition(this.context, call, this.#wasBusy);
  }

  /** The next call asks the store, unless it may soon be handed the lock. */
  #goOn(): void {
    if (this.#contender || this.#isUnderWay) return;
    const next = this.#takeFirst();
    if (next) this.#ask(next);
    else this.#closeIfUnused();
  }

  /** Whether the hold may still be handed on. */
  get #isUnderWay(): boolean {
    return this.#hold !== null && this.context.clock.now() < this.#endsAt;
  }

  #mayHandOn(hold: StoreHold, now: Moment): boolean {
    return (
      now.at < this.#endsAt &&
      hold.handedOn < TOKENS_OF_A_WRITER - 1 &&
      remainingAt(hold, now) >= this.#leastProvenMs &&
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

  /** Of several calls with one signal that was aborted, the last ones may not have heard of it yet. They leave by themselves. */
  #first(): TurnWaiter | undefined {
    for (const waiter of this.#waiters ?? []) if (!waiter.call.request.options.signal?.aborted) return waiter;
    return undefined;
  }

  #takeFirst(): AcquireCall | null {
    const first = this.#first();
    if (!first) return null;
    this.#remove(first);
    return first.call;
  }

  #remove(waiter: TurnWaiter): void {
    this.#waiters?.delete(waiter);
    waiter.stop();
  }

  #closeIfUnused(): void {
    if (this.#contender || this.#hold || this.waiting > 0) return;
    this.#end?.cancel();
    this.turns.delete(this.key);
  }
}
