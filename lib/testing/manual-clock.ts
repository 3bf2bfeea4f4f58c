import { AsyncLocalStorage } from 'node:async_hooks';
import { setImmediate } from 'node:timers';
import { type Clock } from '../core/clock.js';
import { LockConfigurationError } from '../core/lock.errors.js';

interface Timer {
  readonly at: number;
  readonly callback: () => void;
}

/** A clock that moves only when a test says so: leases end, waits time out and watchdogs renew in no time. */
export class ManualClock implements Clock {
  /**
   * By how many milliseconds the wall clock is ahead of the monotonic one; change it to set the wall clock, or to let the
   * machine sleep.
   */
  wallOffsetMs: number;
  readonly #timers = new Set<Timer>();
  #now = 0;

  /** `startsAt`: the time of the wall clock, in milliseconds since the epoch or as a `Date`; by default that of now. */
  constructor(startsAt: number | Date = Date.now()) {
    this.wallOffsetMs = Number(startsAt);
    if (!Number.isFinite(this.wallOffsetMs)) throw refused('the clock to start at a time', startsAt);
  }

  /** How many timers wait. */
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
    // As a timer of Node does, it goes on in the context in which it was set, and not in that of the test.
    const timer = { at: this.#now + delayMs, callback: AsyncLocalStorage.bind(callback) };
    this.#timers.add(timer);
    return () => void this.#timers.delete(timer);
  }

  /** Lets time pass: each timer fires at its time, and what it set off runs before the next. */
  async advance(ms: number): Promise<void> {
    checkMs(ms);
    await settled();
    const until = this.#now + ms;
    for (let next = this.#next(until); next; next = this.#next(until)) {
      this.#now = Math.max(this.#now, next.at);
      this.#timers.delete(next);
      next.callback();
      await settled();
    }
    // Work that was set off may have jumped further.
    this.#now = Math.max(this.#now, until);
  }

  /** A blocked event loop: time has passed, and no timer has fired; `turn` lets them. */
  jump(ms: number): void {
    checkMs(ms);
    this.#now += ms;
  }

  /** One turn of the event loop: the timers that are due now fire, and not those that they set. */
  turn(): void {
    for (const timer of this.#due(this.#now)) {
      if (this.#timers.delete(timer)) timer.callback();
    }
  }

  #next(until: number): Timer | undefined {
    return this.#due(until)[0];
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

/** How many commands in a row, of a `MemoryLockServer`, one timer may set off. */
const TURNS = 10;

/** Resolves when all that can go on has gone on; not touched by the fake timers of a test runner. */
export async function settled(): Promise<void> {
  for (let turn = 0; turn < TURNS; turn += 1) await new Promise<void>((resolve) => void setImmediate(resolve));
}
