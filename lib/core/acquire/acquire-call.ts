import { onAbort } from '../abort-listener.js';
import { type AwaitedCalls } from '../awaited-calls.js';
import { CallContext } from '../call-context.js';
import { type Clock, wasHeldUp } from '../clock.js';
import { type FreshMap } from '../fresh-map.js';
import { type Grant } from '../hold/grant.js';
import { type Holds } from '../hold/holds.js';
import { type Releaser } from '../hold/releaser.js';
import { type StoreHold } from '../hold/store-hold.js';
import { type LockError, LockWaitTimeoutError } from '../lock.errors.js';
import { type LockEvents } from '../lock.events.js';
import { nameOfHolder } from '../store/holder-text.js';
import { type LockStore, type WakeUp } from '../store/lock-store.js';
import { type Randomness } from '../randomness.js';
import { type ScheduledCall, type TimerQueue } from '../timer-queue.js';
import { FIRST_ANSWER_MS, READ_MS } from '../timing.js';
import { eventOf, failedEvent, type LockRequest, waitedMsOf } from './request.js';

/** What all calls of a module use. */
export interface AcquireContext {
  readonly clock: Clock;
  readonly random: Randomness;
  readonly timers: TimerQueue;
  readonly events: LockEvents;
  readonly awaited: AwaitedCalls;
  readonly store: LockStore;
  readonly releaser: Releaser;
  readonly holds: Holds;
  /** The acquisitions that have not ended, by their present attempts. */
  readonly acquisitions: FreshMap<string, WokenAcquisition>;
  /** Returns the id of a new attempt. */
  readonly nextId: () => string;
}

/** An acquisition that has not ended yet. */
export interface WokenAcquisition {
  onWakeUp(wakeUp: WakeUp): void;
  /** Ends its call, and all that stand behind it. */
  close(error: unknown): void;
}

/** Where a call waits: for the calls of its process, or for the store. */
export interface WaitingPlace {
  /** Whether a command of the call is under way. */
  isAnswerAwaited(): boolean;
  /** The time of the call is up. */
  onLimit(call: AcquireCall): void;
  /** The call leaves, and fails with this error. */
  cancel(call: AcquireCall, error: unknown): void;
}

/** Where the calls of a process for one key stand, in their order: it hears what becomes of those that ask the store. */
export interface CallQueue {
  /** The store has answered that the lock is busy. */
  onBusy(): void;
  onGranted(call: AcquireCall, hold: StoreHold, serverTimeMs: number): void;
  /** It has ended without the lock. */
  onFailed(call: AcquireCall): void;
  /** Returns the call for which the acquisition of one that is cancelled goes on; null if there is none. */
  successorOf(call: AcquireCall): AcquireCall | null;
}

/** A call of the app that acquires a lock: its promise, its limits (`waitMs` and `signal`) and its events. */
export class AcquireCall {
  /** What `toResult` makes of the hold. */
  readonly result: Promise<unknown>;
  /** Whether there was a `waiting` event. */
  hasWaited = false;
  /** Its number among the calls of its process for the key. */
  nr = 0;
  /** Where it waits now. A call that moves keeps its limit. */
  place!: WaitingPlace;
  /** Whether the lock was found busy: from then on, only `waitMs` counts. */
  isBusy = false;
  #resolve!: (result: unknown) => void;
  #reject!: (error: unknown) => void;
  /** The async context of the caller, made late: most calls end with the first answer, which comes in it. */
  #callContext: CallContext | null = null;
  #limit: ScheduledCall | null = null;
  #stopListening: (() => void) | undefined;

  constructor(
    private readonly context: AcquireContext,
    readonly request: LockRequest,
    private readonly toResult: (hold: StoreHold) => unknown,
  ) {
    this.result = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    // A call that is cancelled before its first answer needs the context for its listeners only.
    if (request.options.signal || context.events.isHeard('acquireFailed')) this.keepContext();
  }

  /** The call waits here from now on, within the limit that it has; `isBusy`: the lock is known to be busy. */
  waitIn(place: WaitingPlace, isBusy: boolean, now: number): void {
    this.place = place;
    if (this.#limit) return;
    const { signal } = this.request.options;
    this.#stopListening ??= signal && onAbort(signal, () => this.place.cancel(this, signal.reason));
    this.isBusy = isBusy;
    const waitUntil = this.#waitUntil;
    // The first answer may take longer than `waitMs`; after a wait for a permit of the process, by a second at most.
    const answerUntil = Math.min(Math.max(waitUntil, now + FIRST_ANSWER_MS), waitUntil + FIRST_ANSWER_MS);
    this.#setLimit(isBusy ? waitUntil : answerUntil, now);
  }

  /** It has waited for a permit of its process: the first answer of the store has its own time. */
  restartLimit(): void {
    this.#limit?.cancel();
    this.#limit = null;
  }

  /** The lock was found busy. */
  onBusy(): void {
    if (this.isBusy) return;
    this.isBusy = true;
    this.#setLimit(this.#waitUntil, this.context.clock.now());
  }

  /** It was found busy, or stands behind others of its process: one event for each call. */
  tellWaiting(ahead: number, holder: string | undefined): void {
    const { hasWaited, request } = this;
    this.hasWaited = true;
    if (hasWaited) return;
    const event = () => ({ ...eventOf(request), ahead, holder: nameOfHolder(holder) });
    this.inContext(() => this.context.events.emit('waiting', event));
  }

  /** Its time is up: it will fail with this error. */
  tellTimedOut(error: LockError): void {
    if (!(error instanceof LockWaitTimeoutError)) return;
    const { waitedMs, holder } = error;
    this.context.events.emit('timedOut', () => ({ ...eventOf(this.request), waitedMs, holder }));
  }

  stop(): void {
    this.#stopListening?.();
    this.#limit?.cancel();
  }

  fail(error: unknown): void {
    const { events, awaited, clock } = this.context;
    this.stop();
    awaited.end();
    const failed = () => failedEvent(this.request, clock.now(), error, this.hasWaited);
    this.inContext(() => events.emit('acquireFailed', failed));
    this.#reject(error);
  }

  /** Ends with the lock; `from`: the hold of the call that has handed it on. */
  succeed(grant: Grant, from?: StoreHold): StoreHold {
    const { holds, events, awaited } = this.context;
    this.stop();
    awaited.end();
    let hold!: StoreHold;
    this.inContext(() => {
      hold = holds.add(grant, from);
      const { handedOn, receivedAt, serverTimeMs } = grant;
      const waitedMs = waitedMsOf(this.request, receivedAt.at);
      const event = { waitedMs, waited: this.hasWaited, local: handedOn > 0, serverTimeMs };
      events.emit('acquired', () => ({ ...hold.event, ...event }));
    });
    this.#resolve(this.toResult(hold));
    return hold;
  }

  /** The call goes on in another async context. */
  keepContext(): void {
    this.#callContext ??= new CallContext();
  }

  inContext(work: () => void): void {
    if (this.#callContext) this.#callContext.run(work);
    else work();
  }

  get #waitUntil(): number {
    const { startedAt, options } = this.request;
    return startedAt + options.waitMs;
  }

  /** As `setDeadline` does, without its functions: most calls end long before, and each has a limit. */
  #setLimit(at: number, now: number): void {
    this.#limit?.cancel();
    // A limit that has passed already is not late.
    const due = Math.max(at, now);
    this.#limit = this.context.timers.schedule(due, () => this.#onTime(due), now);
  }

  #onTime(due: number): void {
    const { timers } = this.context;
    if (!wasHeldUp(timers, due) || !this.place.isAnswerAwaited()) return this.place.onLimit(this);
    this.#limit = timers.schedule(timers.now() + READ_MS, () => this.place.onLimit(this));
  }
}
