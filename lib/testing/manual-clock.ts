import { AsyncLocalStorage } from 'node:async_hooks';
import { type Clock } from '../core/clock.js';
import { LockConfigurationError } from '../core/lock.errors.js';
import { nextTurn } from '../core/runtime.js';

interface Timer {
  readonly at: number;
  readonly callback: () => void;
}

/** A clock that moves only when a test moves it: leases end, waits time out and watchdogs renew without delay. */
export class ManualClock implements Clock {
  /**
   * How far the wall clock is ahead of the monotonic one, in milliseconds. Change it to set the wall clock, or to simulate a
   * machine that sleeps.
   */
  wallOffsetMs: number;
  readonly #timers = new Set<Timer>();
  #now = 0;

  /** `startsAt`: the time of the wall clock, in milliseconds since the epoch or as a `Date`; by default, now. */
  constructor(startsAt: number | Date = Date.now()) {
    this.wallOffsetMs = Number(startsAt);
    if (!Number.isFinite(this.wallOffsetMs)) throw refused('the clock to start at a time', startsAt);
  }

  /** The number of set timers. */
  get timers(): number {
    return this.#timers.size;
  }

  now(): number {
    return this.#now;
  }

  wallNow(): number {
    return this.#now + this.wallOffsetMs;
  }

  setTimer(callback: () => void, delayMs: number): () => void {
    // Like a timer of Node, it runs in the context in which it was set, not in that of the test.
    const timer = { at: this.#now + delayMs, callback: AsyncLocalStorage.bind(callback) };
    this.#timers.add(timer);
    return () => void this.#timers.delete(timer);
  }

  /** Lets time pass: each timer fires at its time, and the work that it starts runs before the next one fires. */
  async advance(ms: number): Promise<void> {
    checkMs(ms);
    await settled();
    const until = this.#now + ms;
    for (let [next] = this.#due(until); next; [next] = this.#due(until)) {
      this.#now = Math.max(this.#now, next.at);
      this.#timers.delete(next);
      next.callback();
      await settled();
    }
    // This work may have jumped further.
    this.#now = Math.max(this.#now, until);
  }

  /** Simulates a blocked event loop: time passes and no timer fires; `turn` fires them. */
  jump(ms: number): void {
    checkMs(ms);
    this.#now += ms;
  }

  /** Simulates one turn of the event loop: fires the timers that are due now, but not those that they set. */
  turn(): void {
    for (const timer of this.#due(this.#now)) {
      if (this.#timers.delete(timer)) timer.callback();
    }
  }

  #due(until: number): Timer[] {
    return [...this.#timers].filter(({ at }) => at <= until).toSorted((a, b) => a.at - b.at);
  }
}

function checkMs(ms: number): void {
  if (!Number.isFinite(ms) || ms < 0) throw refused('a number of milliseconds from 0 up', ms);
}

const refused = (expected: string, got: unknown): LockConfigurationError =>
  new LockConfigurationError(`Expected ${expected}, got ${String(got)}.`);

/** The number of commands of a `MemoryLockServer` that one timer can start in a row. */
const TURNS = 10;

/** Resolves when all pending work has run; works with the fake timers of a test runner. */
export async function settled(): Promise<void> {
  for (let turn = 0; turn < TURNS; turn += 1) await nextTurn();
}
