import { AsyncLocalStorage } from 'node:async_hooks';
import { type Clock, setDeadline, type Timers } from './clock.js';
import { DROPPED_AFTER_MS } from './timing.js';

/** One entry of the queue. */
export interface ScheduledCall {
  readonly at: number;
  cancel(): void;
}

class Entry implements ScheduledCall {
  constructor(
    readonly at: number,
    /** Null once it was called or cancelled. */
    public callback: (() => void) | null,
    private readonly queue: TimerQueue,
  ) {}

  cancel(): void {
    if (this.callback === null) return;
    this.callback = null;
    this.queue.onCancelled(this);
  }
}

/** The longest delay of a timer in Node; a longer timer would fire at once. */
const MAX_DELAY_MS = 2 ** 31 - 1;

/**
 * All deadlines of a module on one timer: a binary heap by time, of which only the earliest is armed. It reads the clock
 * and does not count ticks, so after a blocked event loop, all due calls run in the first turn. A timer whose call was
 * cancelled stays armed and does nothing: most calls are cancelled long before their time, and a timer per call would cost
 * more than the lock. Callbacks run in the async context in which the queue was created: in that of the call that armed the
 * timer, they would count as part of that call.
 */
export class TimerQueue implements Timers {
  readonly #clock: Clock;
  readonly #inOwnContext = AsyncLocalStorage.snapshot();
  #heap: Entry[] = [];
  #live = 0;
  #disarm: (() => void) | null = null;
  /** The time of the call for which the timer is armed (it may already have passed then), and the time when the timer fires. */
  #armedFor = Infinity;
  #firesAt = Infinity;
  #isClosed = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** The number of scheduled calls. */
  get size(): number {
    return this.#live;
  }

  /** Calls back at `at`, a time of the monotonic clock; never for `Infinity`. `now`: if the caller has just read it. */
  schedule(at: number, callback: () => void, now = this.#clock.now()): ScheduledCall {
    const entry = new Entry(at, callback, this);
    if (at === Infinity) return entry;
    this.#live += 1;
    this.#push(entry);
    this.#arm(now);
    return entry;
  }

  now(): number {
    return this.#clock.now();
  }

  setTimer(callback: () => void, delayMs: number): () => void {
    const call = this.schedule(this.#clock.now() + delayMs, callback);
    return () => call.cancel();
  }

  /** Waits for `done`, but no longer than `ms`, as `setDeadline` counts it: then it resolves to undefined; for 0, at once. */
  withTimeout<T>(ms: number, done: Promise<T>): Promise<T | undefined> {
    if (ms <= 0) return Promise.resolve(undefined);
    return new Promise((resolve) => {
      const cancel = setDeadline(this, () => resolve(undefined), ms);
      void done.then((value) => {
        cancel();
        resolve(value);
      });
    });
  }

  /** The module closes: from now on, a timer is armed only while a call is scheduled. */
  close(): void {
    this.#isClosed = true;
    this.#disarmIfClosed();
  }

  /** Internal: an entry was cancelled. */
  onCancelled({ at }: ScheduledCall): void {
    if (at === Infinity) return;
    this.#live -= 1;
    this.#dropCancelled();
    this.#disarmIfClosed();
    if (this.#heap.length > 64 && this.#heap.length > 2 * this.#live) this.#rebuild();
  }

  /** Cancelled entries stay in the heap until they reach its top or outnumber the others. */
  #rebuild(): void {
    const kept = this.#heap.filter((entry) => entry.callback !== null);
    this.#heap = [];
    for (const entry of kept) this.#push(entry);
  }

  #disarmIfClosed(): void {
    if (!this.#isClosed || this.#live > 0) return;
    this.#disarm?.();
    this.#disarm = null;
    this.#armedFor = Infinity;
  }

  #dropCancelled(): void {
    while (this.#heap[0] && this.#heap[0].callback === null) this.#pop();
  }

  /** Arms the timer for the earliest call, unless it fires before that. */
  #arm(asOf: number): void {
    this.#dropCancelled();
    const next = this.#heap[0]?.at ?? Infinity;
    // A test runner drops its fake timers when the test ends, and this queue may live on.
    const isDropped = asOf > this.#firesAt + DROPPED_AFTER_MS;
    if (next === Infinity || (next >= this.#armedFor && !isDropped)) return;
    // After a block of the event loop, a timer that seems dropped is about to fire: before a new one, and before any answer is read.
    if (!isDropped) this.#disarm?.();
    this.#armedFor = next;
    const now = this.#clock.now();
    this.#firesAt = Math.max(next, now);
    const delayMs = Math.min(Math.ceil(this.#firesAt - now), MAX_DELAY_MS);
    this.#disarm = this.#inOwnContext(() => this.#clock.setTimer(() => this.#run(), delayMs));
  }

  #run(): void {
    // The timer that fires now may be one that seemed dropped.
    this.#disarm?.();
    this.#disarm = null;
    this.#armedFor = Infinity;
    try {
      while (this.#heap[0] && (this.#heap[0].callback === null || this.#heap[0].at <= this.#clock.now())) {
        const entry = this.#pop();
        const { callback } = entry;
        if (callback === null) continue;
        entry.callback = null;
        this.#live -= 1;
        callback();
      }
    } finally {
      // Even if a callback throws (a logger of the app may), the other deadlines must be met.
      this.#arm(this.#clock.now());
    }
  }

  #push(entry: Entry): void {
    const heap = this.#heap;
    let i = heap.push(entry) - 1;
    while (i > 0) {
      const parent = (i - 1) >> 1;
      if (heap[parent]!.at <= entry.at) break;
      heap[i] = heap[parent]!;
      i = parent;
    }
    heap[i] = entry;
  }

  #pop(): Entry {
    const heap = this.#heap;
    const top = heap[0]!;
    const last = heap.pop()!;
    if (heap.length === 0) return top;
    let i = 0;
    for (;;) {
      let child = 2 * i + 1;
      if (child >= heap.length) break;
      if (child + 1 < heap.length && heap[child + 1]!.at < heap[child]!.at) child += 1;
      if (heap[child]!.at >= last.at) break;
      heap[i] = heap[child]!;
      i = child;
    }
    heap[i] = last;
    return top;
  }
}
