import { type AwaitedCalls } from '../awaited-calls.js';
import { type Clock } from '../clock.js';
import { busyError, waitTimeoutError } from '../busy-errors.js';
import { unansweredError } from '../error-texts.js';
import { LocalWait } from '../local-wait.js';
import { LockStoreError } from '../lock.errors.js';
import { type LockEventMap, type LockEvents } from '../lock.events.js';
import { type ResolvedLockOptions } from '../lock.options.js';
import { type Randomness } from '../randomness.js';
import { type LockState } from '../store/lock-state.js';
import { type OperatorStore } from '../store/capabilities.js';
import { type ScheduledCall, type TimerQueue } from '../timer-queue.js';
import { FIRST_ANSWER_MS, LOOK_AGAIN_MS, ROUNDING_MS, lookMs } from '../timing.js';

interface WatchParts {
  readonly clock: Clock;
  readonly random: Randomness;
  readonly timers: TimerQueue;
  readonly events: LockEvents;
  readonly awaited: AwaitedCalls;
}

/** How long to wait, and what stops the wait. */
export type WaitLimits = Pick<ResolvedLockOptions, 'waitMs' | 'signal'>;

/** Waits until locks are free, without taking them and without a place in their queues. */
export class FreeWatch {
  /** By their keys, as JSON: calls that wait for the same locks share their reads. */
  readonly #watches = new Map<string, Watch>();
  #closed: (() => Error) | null = null;

  constructor(private readonly parts: WatchParts) {}

  /** How many calls wait. */
  get size(): number {
    return [...this.#watches.values()].reduce((sum, { size }) => sum + size, 0);
  }

  /**
   * Resolves when one read that began after this call found all keys free.
   * @throws LockBusyError (`waitMs: 0`), LockWaitTimeoutError, LockStoreError, LockShutdownError, or `signal.reason`
   */
  wait(store: OperatorStore, keys: readonly string[], { waitMs, signal }: WaitLimits): Promise<void> {
    if (this.#closed) return Promise.reject(this.#closed());
    if (signal?.aborted) return Promise.reject(signal.reason);
    const { clock, timers, awaited } = this.parts;
    const watch = this.#watchOf(store, keys);
    const wait = new LocalWait(timers, signal, () => watch.remove(caller));
    const caller = new FreeCaller(wait, { keys, waitMs, startedAt: clock.now() });
    caller.limitBy(timers);
    watch.add(caller);
    return awaited.keepAlive(wait.promise);
  }

  /** Ends all waits with an error; later calls fail with one as well. */
  close(error: () => Error): void {
    this.#closed = error;
    for (const watch of this.#watches.values()) watch.fail(error);
  }

  #watchOf(store: OperatorStore, keys: readonly string[]): Watch {
    const name = JSON.stringify(keys.toSorted());
    let watch = this.#watches.get(name);
    if (!watch) {
      watch = new Watch(store, keys, this.parts, () => void this.#watches.delete(name));
      this.#watches.set(name, watch);
    }
    return watch;
  }
}

/** One call that waits. */
class FreeCaller {
  /** What the last read for this call found: a held lock, or an error of the store. */
  #seen: LockState | LockStoreError | null = null;

  constructor(
    readonly wait: LocalWait,
    private readonly call: { readonly keys: readonly string[]; readonly waitMs: number; readonly startedAt: number },
  ) {}

  limitBy(timers: TimerQueue): void {
    const { startedAt, waitMs } = this.call;
    const onLast = (): void => this.wait.fail(this.#limitError(timers.now()));
    this.wait.limitBy(startedAt + waitMs, () => {
      if (this.#seen) return onLast();
      // Without an answer, the state of the lock is unknown.
      this.wait.limitBy(startedAt + waitMs + FIRST_ANSWER_MS, onLast);
    });
  }

  onBusy(state: LockState): void {
    this.#seen = state;
    if (this.call.waitMs === 0) this.wait.fail(busyError(nameOf(state), { holder: holderOf(state) }));
  }

  /** The store may answer the next read. */
  onError(error: unknown): void {
    if (!(error instanceof LockStoreError) || !error.retryable || this.call.waitMs === 0) return this.wait.fail(error);
    this.#seen = error;
  }

  #limitError(now: number): Error {
    const seen = this.#seen;
    const waitedMs = Math.round(now - this.call.startedAt);
    if (seen instanceof LockStoreError) return seen;
    if (seen) return waitTimeoutError(nameOf(seen), waitedMs, { holder: holderOf(seen), ahead: 0 });
    return unansweredError({ key: this.call.keys.join(', '), mode: 'write' }, waitedMs, undefined);
  }
}

const nameOf = ({ key, mode }: LockState) => ({ key, mode: mode === 'read' ? mode : ('write' as const) });

/** The holder with the longest lease, as text. */
function holderOf({ holders }: LockState): string | undefined {
  const [last] = holders.toSorted((a, b) => b.remainingMs - a.remainingMs);
  return last && `${last.host}:${last.pid}${last.where && ` ${last.where}`}`;
}

/** Reads the state of some keys repeatedly, for all calls that wait for them. */
class Watch {
  readonly #callers = new Set<FreeCaller>();
  #next: ScheduledCall | null = null;
  #isLooking = false;
  /** A call came, or a hold of this process ended, during a read. */
  #isAskedAgain = false;
  #lookedAt = -Infinity;
  #looks = 0;

  constructor(
    private readonly store: OperatorStore,
    private readonly keys: readonly string[],
    private readonly parts: WatchParts,
    private readonly onOver: () => void,
  ) {
    parts.events.on('released', this.#onEnded).on('lost', this.#onEnded);
  }

  get size(): number {
    return this.#callers.size;
  }

  add(caller: FreeCaller): void {
    this.#callers.add(caller);
    this.#lookAgain(0);
  }

  remove(caller: FreeCaller): void {
    if (!this.#callers.delete(caller) || this.#callers.size > 0) return;
    this.#next?.cancel();
    this.parts.events.off('released', this.#onEnded).off('lost', this.#onEnded);
    this.onOver();
  }

  fail(error: () => Error): void {
    for (const { wait } of this.#callers) wait.fail(error());
  }

  /** A hold of this process that ends triggers a read. */
  readonly #onEnded = ({ key }: LockEventMap['released' | 'lost']): void => {
    if (key.split(', ').some((ended) => this.keys.includes(ended)) || this.keys.includes(key)) {
      this.#lookAgain(LOOK_AGAIN_MS);
    }
  };

  /** Reads now, but at least `pauseMs` after the last read: a hot lock may be released many times per millisecond. */
  #lookAgain(pauseMs: number): void {
    if (this.#isLooking) {
      this.#isAskedAgain = true;
      return;
    }
    const now = this.parts.clock.now();
    const at = this.#lookedAt + pauseMs;
    if (at <= now) this.#look();
    else if (!this.#next || this.#next.at > at) this.#lookAt(at);
  }

  #lookAt(at: number): void {
    this.#next?.cancel();
    this.#next = this.parts.timers.schedule(at, () => this.#look());
  }

  #look(): void {
    this.#next?.cancel();
    this.#next = null;
    this.#isLooking = true;
    this.#isAskedAgain = false;
    this.#lookedAt = this.parts.clock.now();
    const asking = [...this.#callers];
    void Promise.all(this.keys.map((key) => this.store.inspect(key))).then(
      (states) => this.#onStates(asking, states),
      (error: unknown) => this.#onAnswer(asking, [], (caller) => caller.onError(error)),
    );
  }

  #onStates(asking: readonly FreeCaller[], states: readonly LockState[]): void {
    const held = states.filter(({ mode }) => mode !== 'free');
    this.#onAnswer(asking, held, (caller) => (held.length === 0 ? caller.wait.succeed() : caller.onBusy(held[0]!)));
  }

  #onAnswer(asking: readonly FreeCaller[], held: readonly LockState[], tell: (caller: FreeCaller) => void): void {
    this.#isLooking = false;
    for (const caller of asking) if (this.#callers.has(caller)) tell(caller);
    if (this.#callers.size === 0) return;
    if (this.#isAskedAgain) return this.#lookAgain(LOOK_AGAIN_MS);
    this.#lookAt(this.parts.clock.now() + this.#pauseMs(held));
  }

  /** A lease that ends before the next regular read gets an extra read. */
  #pauseMs(held: readonly LockState[]): number {
    const pauseMs = lookMs(this.#looks, this.parts.random);
    this.#looks += 1;
    const leases = held.flatMap(({ holders }) => holders.map(({ remainingMs }) => remainingMs));
    return leases.length === 0 ? pauseMs : Math.min(pauseMs, Math.max(...leases) + ROUNDING_MS);
  }
}
