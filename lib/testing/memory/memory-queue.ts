import { type AcquireRequest, type FireClaim } from '../../core/store/lock-store.js';

/** An acquire as it reaches the server: with how old the call is, since clocks of clients mean nothing there. */
export interface Ask extends Omit<AcquireRequest, 'claim'> {
  readonly claim?: (Omit<FireClaim, 'calledAt'> & { readonly ageMs: number }) | undefined;
  /** When the command was sent, by the server's clock, and how old it may get; left out where no command can be late. */
  readonly sentMicros?: number;
  readonly maxAgeMs?: number;
}

/** An acquisition that waits, and its place in the queue. */
export interface Waiter extends Ask {
  readonly place: number;
  deadline: number;
}

/** The waiters of one lock by their places, as the scripts keep them in Redis (lib/redis/scripts/parts/queue.ts). */
export class MemoryQueue {
  /** The place of the waiter that is next. */
  head = 1;
  readonly #waiters = new Map<number, Waiter>();
  #tail = 0;
  /** The lowest place in use: those before the head were passed over, because nobody listened for them. */
  #first = 1;
  #cursor = 1;
  #now = 0;

  /** All that wait, in order; some of them may be over by now. */
  get waiters(): Waiter[] {
    return [...this.#waiters.values()].toSorted((a, b) => a.place - b.place);
  }

  /** Whether nobody is left who has not been passed over. */
  get isServed(): boolean {
    return this.head > this.#tail;
  }

  /** The places from the head on. */
  get places(): number[] {
    return Array.from({ length: Math.max(this.#tail - this.head + 1, 0) }, (_, i) => this.head + i);
  }

  setTime(now: number): void {
    this.#now = now;
  }

  of(attempt: string): Waiter | undefined {
    return this.waiters.find((waiter) => waiter.attempt === attempt);
  }

  /** Who waits there; a waiter whose lease is over leaves when somebody looks. */
  at(place: number): Waiter | undefined {
    const waiter = this.#waiters.get(place);
    if (!waiter) return undefined;
    // More left than was ever given: the clock stepped back.
    waiter.deadline = Math.min(waiter.deadline, this.#now + waiter.waiterLeaseMs);
    if (waiter.deadline > this.#now) return waiter;
    this.#waiters.delete(place);
    return undefined;
  }

  /** Keeps the place that it has, or takes the last one. */
  join(ask: Ask): void {
    const place = this.of(ask.attempt)?.place ?? (this.#tail += 1);
    this.#waiters.set(place, { ...ask, place, deadline: this.#now + ask.waiterLeaseMs });
  }

  /** Whether it was there. */
  leave(attempt: string): boolean {
    const waiter = this.of(attempt);
    return waiter !== undefined && this.#waiters.delete(waiter.place);
  }

  /** Goes on to the next one. Whoever is passed over keeps its place. */
  goOn(isPassedOver: boolean): void {
    if (this.head === this.#first && !isPassedOver) this.#first += 1;
    this.head += 1;
  }

  /** Looks at some places, and at more as long as they are empty. */
  sweep(): void {
    let live = 0;
    for (let left = Math.min(this.#tail - this.#first + 1, 512); left > 0 && live < 8; left -= 1) {
      if (this.#cursor < this.#first || this.#cursor > this.#tail) this.#cursor = this.#first;
      live = this.at(this.#cursor) ? live + 1 : 0;
      if (live === 0 && this.#cursor === this.#first) this.#first += 1;
      this.#cursor += 1;
    }
    this.head = Math.max(this.head, this.#first);
  }
}
