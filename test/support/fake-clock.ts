import { type Clock } from '../../lib/core/clock.js';

interface Timer {
  readonly at: number;
  readonly callback: () => void;
}

/** A clock that moves only when a test says so. */
export class FakeClock implements Clock {
  /** What the wall clock is ahead of the monotonic one; change it to set the wall clock, or to let the machine sleep. */
  wallOffset = 1_700_000_000_000;
  /** The delays that were asked for, in order. */
  readonly delays: number[] = [];
  readonly #timers = new Set<Timer>();
  #now: number;

  constructor(now = 5_000) {
    this.#now = now;
  }

  /** How many timers of the operating system there would be. */
  get timers(): number {
    return this.#timers.size;
  }

  now(): number {
    return this.#now;
  }

  wallNow(): number {
    return this.#now + this.wallOffset;
  }

  setTimer(callback: () => void, delayMs: number): () => void {
    this.delays.push(delayMs);
    const timer = { at: this.#now + delayMs, callback };
    this.#timers.add(timer);
    return () => this.#timers.delete(timer);
  }

  /** Lets time pass: each timer fires at its time, and what it set off runs before the next. */
  async advance(ms: number): Promise<void> {
    await settled();
    const until = this.#now + ms;
    for (let next = this.#next(until); next; next = this.#next(until)) {
      this.#now = Math.max(this.#now, next.at);
      this.#timers.delete(next);
      next.callback();
      await settled();
    }
    this.#now = until;
  }

  /** A blocked event loop: time has passed, and no timer has fired. */
  jump(ms: number): void {
    this.#now += ms;
  }

  /** One turn of the event loop: the timers that are due now fire, and not those that they set. */
  turn(): void {
    const due = [...this.#timers].filter(({ at }) => at <= this.#now).toSorted((a, b) => a.at - b.at);
    for (const timer of due) {
      if (this.#timers.delete(timer)) timer.callback();
    }
  }

  #next(until: number): Timer | undefined {
    return [...this.#timers].filter(({ at }) => at <= until).toSorted((a, b) => a.at - b.at)[0];
  }
}

/** Resolves when all promises that can go on have gone on. */
export const settled = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve));
