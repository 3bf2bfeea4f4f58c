import { busyError, queueFullError, waitTimeoutError } from '../busy-errors.js';
import { FreshMap } from '../fresh-map.js';
import { type Moment, moment, remainingAt } from '../hold/lease.js';
import { type StoreHold } from '../hold/store-hold.js';
import { type LockError } from '../lock.errors.js';
import { TOKENS_OF_A_WRITER } from '../store/lock-store.js';
import { type ScheduledCall } from '../timer-queue.js';
import { HAND_ON_MS } from '../timing.js';
import { AcquireCall, type AcquireContext, type CallQueue, type WaitingPlace } from './acquire-call.js';
import { Acquisition } from './acquisition.js';
import { type LockRequest, nameOf, waitedMsOf } from './request.js';

/** The empty queue: in most queues, no call ever waits. Nothing is added to it. */
const NO_CALLS = new Set<AcquireCall>();

/** The same for a list. */
const NONE: AcquireCall[] = [];

/**
 * The calls of this process that want one key, in their order. A call asks the store when no call ahead excludes it; until
 * then, it waits here. The holder of a lock hands it to the first waiting call without an acquire (ADR 22), for `HAND_ON_MS`
 * after the grant. After that, the first call waits in the store, where the other processes wait.
 */
export class LocalQueue implements WaitingPlace, CallQueue {
  #waiting = NO_CALLS;
  /** The calls that ask the store. Lists: most queues have one such call, and a set takes more memory than the rest of it. */
  #askingWriters = NONE;
  #askingReaders = NONE;
  #lastNr = 0;
  /** The hold that may be handed on; null after its end. */
  #hold: StoreHold | null = null;
  #serverTimeMs = 0;
  #handOnUntil = -Infinity;
  /** The remaining lease that a hold needs to be handed on. */
  #leastProvenMs = Infinity;
  #end: ScheduledCall | null = null;
  /** Whether the lock was held since the first call came: then an answer of the store adds nothing for a waiting call. */
  #wasBusy = false;
  /** The permits of the calls with `perInstance` that ask the store or have the lock, and the holds of these. */
  #permits = 0;
  #permitHolds: Map<StoreHold, LockRequest> | null = null;

  constructor(
    private readonly context: AcquireContext,
    readonly key: string,
    /** Called when no call wants the key any longer. */
    private readonly onUnused: (queue: LocalQueue) => void,
  ) {}

  /** How many calls wait here. */
  get waiting(): number {
    return this.#waiting.size;
  }

  get #asking(): number {
    return this.#askingWriters.length + this.#askingReaders.length;
  }

  begin(call: AcquireCall): void {
    this.#lastNr += 1;
    call.nr = this.#lastNr;
    const { request } = call;
    const now = this.context.clock.now();
    if (!this.#standsBehind(request) && this.#mayAsk(call, now)) return this.#ask(call);
    const refusal = this.#refusalOf(request);
    // A call is refused only while others want the key.
    if (refusal) call.fail(refusal);
    else this.#wait(call, now);
  }

  onBusy(): void {
    if (this.#wasBusy) return;
    this.#wasBusy = true;
    for (const waiting of this.#waiting) waiting.onBusy();
  }

  /** The store has granted the lock. */
  onGranted(call: AcquireCall, hold: StoreHold, serverTimeMs: number): void {
    this.#endAsking(call);
    this.onBusy();
    const { request } = call;
    // A listener may already have lost or released it.
    if (hold.isOver) this.#freePermits(request);
    else if (request.options.perInstance > 0) (this.#permitHolds ??= new Map()).set(hold, request);
    else if (handsOn(request)) this.#keep(hold, serverTimeMs);
    this.#goOn();
  }

  /** A call that asked the store has ended without the lock. */
  onFailed(call: AcquireCall): void {
    this.#endAsking(call);
    this.#freePermits(call.request);
    this.#goOn();
  }

  /** A hold has ended, or was lost. Its release, if any, has been sent. */
  onEnded(hold: StoreHold): void {
    const request = this.#permitHolds?.get(hold);
    if (request) {
      this.#permitHolds!.delete(hold);
      this.#freePermits(request);
    } else if (hold === this.#hold) this.#hold = null;
    else return;
    this.#goOn();
  }

  /** Returns the call that takes over the acquisition of a cancelled one; null if there is none. */
  successorOf(call: AcquireCall): AcquireCall | null {
    const next = this.#first();
    if (!next || !handsOnTo(call.request, next.request)) return null;
    this.#endAsking(call);
    if (this.#isExcluded(next)) return null;
    this.#waiting.delete(next);
    this.#addAsking(next);
    return next;
  }

  /** Hands a hold that its caller releases to the next call; returns the hold of the next call, or null. */
  handOn(hold: StoreHold): StoreHold | null {
    if (hold !== this.#hold) return null;
    const next = this.#first();
    if (!next || !handsOnTo(hold.request, next.request) || this.#isExcluded(next)) return null;
    const now = moment(this.context.clock);
    if (!this.#mayHandOn(hold, now)) return null;
    this.#waiting.delete(next);
    this.context.holds.endLocally(hold);
    const heir = next.succeed(
      {
        request: next.request,
        tokens: hold.storedTokens,
        attempt: hold.attempt,
        handedOn: hold.handedOn + 1,
        hasNewHolder: true,
        fire: undefined,
        lease: { deadline: hold.deadline, wallDeadline: hold.wallDeadline },
        sent: now,
        receivedAt: now,
        serverTimeMs: this.#serverTimeMs,
        // A hold is handed on only when each command of its attempt was answered.
        unanswered: null,
      },
      hold,
    );
    this.#hold = heir.isOver ? null : heir;
    if (heir.isOver) this.#goOn();
    return heir;
  }

  isAnswerAwaited(): boolean {
    return false;
  }

  onLimit(call: AcquireCall): void {
    const error = this.#limitError(call);
    // Before a listener may cancel it, or release the lock.
    this.#waiting.delete(call);
    call.tellTimedOut(error);
    call.fail(error);
    this.#goOn();
  }

  cancel(call: AcquireCall, error: unknown): void {
    if (!this.#waiting.delete(call)) return;
    call.fail(error);
    this.#goOn();
  }

  /** Ends all calls that wait here, the last one first: otherwise the next one would ask the store. */
  close(error: LockError): void {
    for (const call of [...this.#waiting].toReversed()) this.cancel(call, error);
  }

  /** Whether a call that waits here comes first. */
  #standsBehind(request: LockRequest): boolean {
    if (!asksAtOnce(request)) return this.waiting > 0;
    if (request.options.perInstance === 0) return false;
    for (const ahead of this.#waiting) if (ahead.request.options.perInstance > 0) return true;
    return false;
  }

  #wait(call: AcquireCall, now: number): void {
    const { perInstance } = call.request.options;
    call.keepContext();
    const ahead = this.waiting + (perInstance > 0 ? 0 : this.#asking);
    if (this.#waiting === NO_CALLS) this.#waiting = new Set();
    this.#waiting.add(call);
    call.waitIn(this, this.#wasBusy || perInstance > 0, now);
    call.tellWaiting(ahead, perInstance > 0 ? undefined : this.#hold?.request.holder);
    this.#awaitEnd(now);
  }

  #ask(call: AcquireCall): void {
    const { perInstance, take } = call.request.options;
    if (perInstance > 0) {
      this.#permits += take;
      call.restartLimit();
    }
    this.#addAsking(call);
    void new Acquisition(this.context, call, this, this.#wasBusy && perInstance === 0);
  }

  #addAsking(call: AcquireCall): void {
    if (reads(call)) this.#askingReaders = added(this.#askingReaders, call);
    else this.#askingWriters = added(this.#askingWriters, call);
  }

  #endAsking(call: AcquireCall): void {
    const asking = reads(call) ? this.#askingReaders : this.#askingWriters;
    const at = asking.indexOf(call);
    if (at >= 0) asking.splice(at, 1);
  }

  /** The calls that are no longer excluded ask the store, in their order. */
  #goOn(): void {
    const now = this.context.clock.now();
    for (const call of this.#waiting) {
      const { signal } = call.request.options;
      // If several calls share an aborted signal, the last ones may not have been notified yet. Skipping each of them
      // would block the event loop when there are thousands.
      if (!signal?.aborted && !this.#mayAsk(call, now)) break;
      this.#waiting.delete(call);
      if (signal?.aborted) call.fail(signal.reason);
      else call.inContext(() => this.#ask(call));
    }
    this.#awaitEnd(now);
    this.#closeIfUnused();
  }

  #mayAsk(call: AcquireCall, now: number): boolean {
    const { request } = call;
    const { perInstance, take } = request.options;
    if (perInstance > 0 && this.#permits + take > perInstance) return false;
    if (asksAtOnce(request)) return true;
    const mayBeHanded = this.#isHandedOn(now) && handsOnTo(this.#hold!.request, request);
    return !mayBeHanded && !this.#isExcluded(call);
  }

  /** Whether a call ahead that cannot share the lock with this one asks the store. */
  #isExcluded(call: AcquireCall): boolean {
    const isAhead = (other: AcquireCall): boolean => other.nr < call.nr;
    // Thousands of readers may ask at the same time: no other reader is compared with them.
    return this.#askingWriters.some(isAhead) || (!reads(call) && this.#askingReaders.some(isAhead));
  }

  /** Whether the hold may still be handed on. */
  #isHandedOn(now: number): boolean {
    return this.#hold !== null && now < this.#handOnUntil;
  }

  #keep(hold: StoreHold, serverTimeMs: number): void {
    this.#hold = hold;
    this.#serverTimeMs = serverTimeMs;
    this.#handOnUntil = this.context.clock.now() + HAND_ON_MS;
    // Not half of the present rest: a listener may have used up the rest.
    this.#leastProvenMs = (hold.deadline - hold.sentAt) / 2;
    this.#end?.cancel();
    this.#end = null;
  }

  #mayHandOn(hold: StoreHold, now: Moment): boolean {
    return (
      now.at < this.#handOnUntil &&
      hold.handedOn < TOKENS_OF_A_WRITER - 1 &&
      remainingAt(hold, now) >= this.#leastProvenMs &&
      hold.isAsGranted
    );
  }

  /**
   * While this process holds the lock for longer, the next call waits in the store, where the other processes wait. `now`: the
   * time at which it was decided that the call waits here. At a later time, the limit may have passed, and nothing would end the wait.
   */
  #awaitEnd(now: number): void {
    if (this.#waiting.size === 0 || !this.#isHandedOn(now)) return;
    this.#end ??= this.context.timers.schedule(this.#handOnUntil, () => this.#goOn());
  }

  /** Returns the error of a call that would have to wait for a permit of its process, but must not. */
  #refusalOf(request: LockRequest): LockError | null {
    const { waitMs, maxWaiters, perInstance } = request.options;
    if (perInstance === 0) return null;
    if (waitMs === 0) return busyError(nameOf(request), { holder: undefined, perInstance });
    const inStore = [...this.#askingWriters, ...this.#askingReaders].filter(({ isBusy }) => isBusy).length;
    const isFull = maxWaiters > 0 && this.waiting + inStore >= maxWaiters;
    return isFull ? queueFullError(nameOf(request), maxWaiters) : null;
  }

  #limitError(call: AcquireCall): LockError {
    const { request, nr } = call;
    const { perInstance } = request.options;
    let ahead = 0;
    for (const other of this.#waiting) {
      if (other === call) break;
      ahead += 1;
    }
    const waitedMs = waitedMsOf(request, this.context.clock.now());
    if (perInstance > 0 && this.#permits > 0)
      return waitTimeoutError(nameOf(request), waitedMs, { holder: undefined, perInstance, ahead });
    const asking = [...this.#askingWriters, ...this.#askingReaders].filter((other) => other.nr < nr);
    const first = asking[0]?.place;
    if (first instanceof Acquisition) return first.limitError(call, ahead + asking.length);
    return waitTimeoutError(nameOf(request), waitedMs, { holder: this.#hold?.request.holder, ahead });
  }

  #freePermits({ options: { perInstance, take } }: LockRequest): void {
    if (perInstance > 0) this.#permits -= take;
  }

  #first(): AcquireCall | undefined {
    for (const call of this.#waiting) if (!call.request.options.signal?.aborted) return call;
    return undefined;
  }

  #closeIfUnused(): void {
    if (this.#hold || this.#asking + this.#waiting.size + this.#permits > 0) return;
    this.#end?.cancel();
    this.onUnused(this);
  }
}

/** The queues of this process, by key. */
export class LocalQueues {
  readonly #byKey = new FreshMap<string, LocalQueue>();
  #isClosing = false;
  /** When messages of the store may last have been missed. */
  #missedAt = -Infinity;

  constructor(
    private readonly context: AcquireContext,
    /** Whether the store reserves tokens, so that a hold can be handed on. */
    private readonly reservesTokens: boolean,
  ) {}

  /** How many calls wait here. */
  get waiting(): number {
    let waiting = 0;
    for (const queue of this.#byKey.values()) waiting += queue.waiting;
    return waiting;
  }

  /** How many calls wait here for this key. */
  waitingFor(key: string): number {
    return this.#byKey.get(key)?.waiting ?? 0;
  }

  /** Begins a call; resolves with what `toResult` makes of its hold. */
  begin<T>(request: LockRequest, toResult: (hold: StoreHold) => T): Promise<T> {
    const call = new AcquireCall(this.context, request, toResult);
    if (this.#standsInQueue(request)) this.#queueOf(request.keys[0]!).begin(call);
    else void new Acquisition(this.context, call, null);
    return call.result as Promise<T>;
  }

  /** Hands a hold that its caller releases to the next call; null if it has to be released in the store. */
  handOn(hold: StoreHold): StoreHold | null {
    // A lock that was granted before that may have been revoked.
    if (this.#isClosing || hold.sentAt < this.#missedAt) return null;
    return this.#byKey.get(hold.key)?.handOn(hold) ?? null;
  }

  onMessagesMissed(): void {
    this.#missedAt = this.context.clock.now();
  }

  /** A hold has ended, or was lost. Its release, if any, has been sent. */
  onEnded(hold: StoreHold): void {
    this.#byKey.get(hold.key)?.onEnded(hold);
  }

  /** Ends all calls that wait here. */
  close(error: LockError): void {
    this.#isClosing = true;
    for (const queue of this.#byKey.values()) queue.close(error);
  }

  #queueOf(key: string): LocalQueue {
    const known = this.#byKey.get(key);
    if (known) return known;
    const queue = new LocalQueue(this.context, key, this.#forget);
    this.#byKey.set(key, queue);
    return queue;
  }

  /** A listener may have emptied a queue and begun the next one before its last call ends. */
  readonly #forget = (queue: LocalQueue): void => {
    if (this.#byKey.get(queue.key) === queue) this.#byKey.delete(queue.key);
  };

  /**
   * Whether a call waits in this queue. These calls ask the store directly: one with several keys, which has one place in the store
   * for all of them; one that needs an answer of the store before it waits (`waitMs: 0`, `maxWaiters`, a fire); one with another
   * order (`fair`). Without reserved tokens, each call asks directly.
   */
  #standsInQueue({ callerKeys, part, claim, options }: LockRequest): boolean {
    if (options.perInstance > 0) return true;
    const { fair, waitMs, maxWaiters } = options;
    const wantsAnswer = waitMs === 0 || maxWaiters > 0 || claim !== undefined;
    return this.reservesTokens && !callerKeys && !part && fair === true && !wantsAnswer;
  }
}

/** V8 allocates 17 elements when one is added to an empty list. */
function added(list: AcquireCall[], call: AcquireCall): AcquireCall[] {
  if (list.length === 0) return [call];
  list.push(call);
  return list;
}

const reads = ({ request }: AcquireCall): boolean => request.options.mode === 'read';

/** Whether a call asks the store whatever is ahead: it may share a hold of its owner, or must not wait here. */
const asksAtOnce = ({ options: { owner, fair, waitMs }, claim }: LockRequest): boolean =>
  owner !== undefined || fair !== true || waitMs === 0 || claim !== undefined;

/** Whether the hold of this request may be handed on: the store has only its attempt and its lease. A writer takes no permits. */
const handsOn = ({ options }: LockRequest): boolean =>
  options.mode === 'write' && options.renew && options.owner === undefined && options.holdAtLeastMs === 0;

/** Whether a call may get the hold of another one: both must ask for the same. */
const handsOnTo = (from: LockRequest, to: LockRequest): boolean =>
  handsOn(from) && handsOn(to) && from.options.leaseMs === to.options.leaseMs;
