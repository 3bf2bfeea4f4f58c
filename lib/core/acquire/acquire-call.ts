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
  /** Ends its call, and all calls behind it. */
  close(error: unknown): void;
}

/** Where a call waits: for the calls of its process, or for the store. */
export interface WaitingPlace {
  /** Whether a command of the call is under way. */
  isAnswerAwaited(): boolean;
  /** The time limit of the call has passed. */
  onLimit(call: AcquireCall): void;
  /** The call leaves this place and fails with this error. */
  cancel(call: AcquireCall, error: unknown): void;
}

/** The calls of a process for one key, in their order. It is notified when a call that asks the store ends. */
export interface CallQueue {
  /** The store has answered that the lock is busy. */
  onBusy(): void;
  onGranted(call: AcquireCall, hold: StoreHold, serverTimeMs: number): void;
  /** The call has ended without the lock. */
  onFailed(call: AcquireCall): void;
  /** Returns the call that takes over the acquisition of a cancelled one; null if there is none. */
  successorOf(call: AcquireCall): AcquireCall | null;
}

/** A call of the app that acquires a lock: its promise, its limits (`waitMs` and `signal`) and its events. */
export class AcquireCall {
  /** What `toResult` makes of the hold. */
  readonly result: Promise<unknown>;
  /** Whether there was a `waiting` event. */
  hasWaited = false;
  /** The number of the call among the calls of its process for the key. */
  nr = 0;
  /** Where the call waits now. A call that changes its place keeps its limit. */
  place!: WaitingPlace;
  /** Whether the lock was found busy: from then on, only `waitMs` counts. */
  isBusy = false;
  #resolve!: (result: unknown) => void;
  #reject!: (error: unknown) => void;
  /** The async context of the caller; created late, because most calls end with the first answer, in this context. */
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
    // A call that is cancelled before its first answer needs the context only for its listeners.
    if (request.options.signal || context.events.isHeard('acquireFailed')) this.keepContext();
  }

  /** The call waits here from now on, and keeps its limit; `isBusy`: the lock is known to be busy. */
  waitIn(place: WaitingPlace, isBusy: boolean, now: number): void {
    this.place = place;
    if (this.#limit) return;
    const { signal } = this.request.options;
    this.#stopListening ??= signal && onAbort(signal, () => this.place.cancel(this, signal.reason));
    this.isBusy = isBusy;
    const waitUntil = this.#waitUntil;
    // The first answer may take longer than `waitMs`; after a wait for a permit of the process, at most a second longer.
    const answerUntil = Math.min(Math.max(waitUntil, now + FIRST_ANSWER_MS), waitUntil + FIRST_ANSWER_MS);
    this.#setLimit(isBusy ? waitUntil : answerUntil, now);
  }

  /** The call has waited for a permit of its process: a new limit begins for the first answer of the store. */
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

  /** The lock was found busy, or the call is behind others of its process. Emits one event per call. */
  tellWaiting(ahead: number, holder: string | undefined): void {
    const { hasWaited, request } = this;
    this.hasWaited = true;
    if (hasWaited) return;
    const event = () => ({ ...eventOf(request), ahead, holder: nameOfHolder(holder) });
    this.inContext(() => this.context.events.emit('waiting', event));
  }

  /** The time limit has passed: the call fails with this error. */
  tellTimedOut(error: LockError): void {
    if (!(error instanceof LockWaitTimeoutError)) return;
    const { waitedMs, holder } = error;
    this.context.events.emit('timedOut', () => ({ ...eventOf(this.request), waitedMs, holder }));
  }

  #stop(): void {
    this.#stopListening?.();
    this.#limit?.cancel();
  }

  fail(error: unknown): void {
    const { events, awaited, clock } = this.context;
    this.#stop();
    awaited.end();
    const failed = () => failedEvent(this.request, clock.now(), error, this.hasWaited);
    this.inContext(() => events.emit('acquireFailed', failed));
    this.#reject(error);
  }

  /** Ends with the lock; `from`: the hold of the call that has handed it on. */
  succeed(grant: Grant, from?: StoreHold): StoreHold {
    const { holds, events, awaited } = this.context;
    this.#stop();
    awaited.end();
    // Nothing of it depends on the context of the caller, except for listeners.
    const hold = holds.add(grant, from);
    if (events.isHeard('acquired')) this.inContext(() => this.#tellAcquired(hold, grant));
    this.#resolve(this.toResult(hold));
    return hold;
  }

  #tellAcquired(hold: StoreHold, { handedOn, receivedAt, serverTimeMs }: Grant): void {
    const waitedMs = waitedMsOf(this.request, receivedAt.at);
    const event = { waitedMs, waited: this.hasWaited, local: handedOn > 0, serverTimeMs };
    this.context.events.emit('acquired', () => ({ ...hold.event, ...event }));
  }

  /** The call continues in another async context. */
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

  /** Does what `setDeadline` does, without its closures: each call has a limit, and few calls reach it. */
  #setLimit(at: number, now: number): void {
    this.#limit?.cancel();
    // A limit that has already passed is not late.
    const due = Math.max(at, now);
    this.#limit = this.context.timers.schedule(due, () => this.#onTime(due), now);
  }

  #onTime(due: number): void {
    const { timers } = this.context;
    if (!wasHeldUp(timers, due) || !this.place.isAnswerAwaited()) return this.place.onLimit(this);
    this.#limit = timers.schedule(timers.now() + READ_MS, () => this.place.onLimit(this));
  }
}
