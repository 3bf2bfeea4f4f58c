import { busyError, queueFullError, waitTimeoutError } from '../busy-errors.js';
import { type StoreHold } from '../hold/store-hold.js';
import { type LockError } from '../lock.errors.js';
import { AcquireCall, type TurnOfCall } from './acquire-call.js';
import { Acquisition } from './acquisition.js';
import { type AcquireContext } from './attempts.js';
import { type LocalQueue, LocalWaiter } from './local-waiter.js';
import { eventOf, type LockRequest, nameOf, waitedMsOf } from './request.js';

/**
 * Limits how many permits of a key this process has at a time (`perInstance`). The other calls wait here, first in, first out,
 * before they ask the store, which knows nothing of the limit. A permit counts from the first command until its hold has ended.
 */
export class InstanceGates {
  /** The keys that calls wait for, ask for or hold. */
  readonly #byKey = new Map<string, Gate>();

  constructor(private readonly context: AcquireContext) {}

  /** How many calls wait here. */
  get waiting(): number {
    let waiting = 0;
    for (const gate of this.#byKey.values()) waiting += gate.waiting;
    return waiting;
  }

  /** How many calls wait here for this key. */
  waitingFor(key: string): number {
    return this.#byKey.get(key)?.waiting ?? 0;
  }

  /** Begins a call; resolves with what `toResult` makes of its hold. */
  begin<T>(request: LockRequest, toResult: (hold: StoreHold) => T): Promise<T> {
    const key = request.keys[0]!;
    let gate = this.#byKey.get(key);
    if (!gate) {
      gate = new Gate(this.context, () => this.#byKey.delete(key));
      this.#byKey.set(key, gate);
    }
    return gate.begin(request, toResult) as Promise<T>;
  }

  /** A hold has ended, or was lost. Its release, if there is one, has been sent. */
  onEnded(hold: StoreHold): void {
    this.#byKey.get(hold.key)?.onEnded(hold);
  }

  /** Ends all calls that wait here. */
  close(error: LockError): void {
    for (const gate of this.#byKey.values()) gate.cancel(error);
  }
}

/** The calls of this process that want permits of one key. */
class Gate implements LocalQueue {
  /** How many permits the calls have that ask the store, and those that hold the lock. */
  #taken = 0;
  readonly #asking = new Set<Entry>();
  readonly #held = new Map<StoreHold, Entry>();
  /** In their order. */
  readonly #waiters = new Map<LocalWaiter, Entry>();

  constructor(
    private readonly context: AcquireContext,
    /** Nobody wants the key any more. */
    private readonly onUnused: () => void,
  ) {}

  get waiting(): number {
    return this.#waiters.size;
  }

  begin(request: LockRequest, toResult: (hold: StoreHold) => unknown): Promise<unknown> {
    const entry = new Entry(this, request.options.take);
    const call = new AcquireCall(request, entry, this.context.clock.now(), toResult);
    const isOpen = this.#isOpenTo(request, entry);
    const refusal = isOpen ? null : this.#refusalOf(request);
    if (refusal) this.context.fail(call, refusal);
    else if (isOpen) this.#ask(call, entry);
    else this.#wait(call, entry);
    return call.result;
  }

  onGranted(entry: Entry, hold: StoreHold): void {
    // A listener may have lost it already.
    if (hold.isOver) return this.onFailed(entry);
    this.#asking.delete(entry);
    this.#held.set(hold, entry);
  }

  /** The call has ended without the lock. */
  onFailed(entry: Entry): void {
    this.#asking.delete(entry);
    this.#giveBack(entry);
  }

  onEnded(hold: StoreHold): void {
    const entry = this.#held.get(hold);
    if (!entry) return;
    this.#held.delete(hold);
    this.#giveBack(entry);
  }

  onLimit(waiter: LocalWaiter): void {
    const { request } = waiter.call;
    const ahead = [...this.#waiters.keys()].indexOf(waiter);
    const waitedMs = waitedMsOf(request, this.context.timers.now());
    const error = waitTimeoutError(nameOf(request), waitedMs, { ...fullFor(request), ahead });
    // Before a listener may cancel it.
    this.#remove(waiter);
    this.context.onTimeout(request, error);
    this.#fail(waiter, error);
  }

  leave(waiter: LocalWaiter, error: unknown): void {
    this.#remove(waiter);
    this.#fail(waiter, error);
  }

  cancel(error: LockError): void {
    for (const waiter of [...this.#waiters.keys()].toReversed()) this.leave(waiter, error);
  }

  #fits({ options: { perInstance } }: LockRequest, { permits }: Entry): boolean {
    return this.#taken + permits <= perInstance;
  }

  #isOpenTo(request: LockRequest, entry: Entry): boolean {
    return this.waiting === 0 && this.#fits(request, entry);
  }

  /** The error of a call that has to wait, and does not. */
  #refusalOf(request: LockRequest): LockError | null {
    const { waitMs, maxWaiters } = request.options;
    if (waitMs === 0) return busyError(nameOf(request), fullFor(request));
    const inStore = [...this.#asking].filter(({ isBusy }) => isBusy).length;
    const isFull = maxWaiters > 0 && this.waiting + inStore >= maxWaiters;
    return isFull ? queueFullError(nameOf(request), maxWaiters) : null;
  }

  #wait(call: AcquireCall, entry: Entry): void {
    call.keepContext();
    call.hasWaited = true;
    const ahead = this.waiting;
    this.#waiters.set(new LocalWaiter(this, call, this.context.timers, true), entry);
    this.context.events.emit('waiting', () => ({ ...eventOf(call.request), ahead, holder: undefined }));
  }

  #ask(call: AcquireCall, entry: Entry): void {
    this.#taken += entry.permits;
    this.#asking.add(entry);
    call.beganAt = this.context.clock.now();
    call.inContext(() => void new Acquisition(this.context, call));
  }

  #fail({ call }: LocalWaiter, error: unknown): void {
    this.context.fail(call, error);
    // It may have been the one that the others waited behind.
    this.#goOn();
  }

  #giveBack({ permits }: Entry): void {
    this.#taken -= permits;
    this.#goOn();
  }

  #goOn(): void {
    for (const [waiter, entry] of this.#waiters) {
      const { request } = waiter.call;
      // Of several calls with one signal that was aborted, the last ones may not have heard of it yet. They leave by themselves.
      if (request.options.signal?.aborted) continue;
      if (!this.#fits(request, entry)) break;
      this.#remove(waiter);
      this.#ask(waiter.call, entry);
    }
    if (this.#taken === 0 && this.waiting === 0) this.onUnused();
  }

  #remove(waiter: LocalWaiter): void {
    this.#waiters.delete(waiter);
    waiter.stop();
  }
}

/** The permits of a call at its gate, which its acquisition tells what becomes of it. */
class Entry implements TurnOfCall {
  /** Whether the call waits in the store. */
  isBusy = false;

  constructor(
    private readonly gate: Gate,
    readonly permits: number,
  ) {}

  onBusy(): void {
    this.isBusy = true;
  }

  onGranted(hold: StoreHold): void {
    this.gate.onGranted(this, hold);
  }

  /** Those that wait at the gate ask for themselves. */
  successor(): null {
    return null;
  }

  onFailed(): void {
    this.gate.onFailed(this);
  }
}

/** Why a call has to wait at its gate. */
const fullFor = ({ options: { perInstance } }: LockRequest) => ({ holder: undefined, perInstance });
