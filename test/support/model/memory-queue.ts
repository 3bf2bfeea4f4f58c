import { type FireClaim } from '../../../lib/core/store/fires.js';
import { type AcquireRequest, type RenewRequest } from '../../../lib/core/store/lock-store.js';
import { Writes } from './writes.js';

/** An acquire as the server receives it: with the age of the call, since a client's clock means nothing to a server. */
export interface ReceivedRequest extends Omit<AcquireRequest, 'claim'> {
  readonly claim?: (Omit<FireClaim, 'calledAt'> & { readonly ageMs: number }) | undefined;
  /** When the command was sent, by the server's clock, and its greatest age; left out where no command can be late. */
  readonly sentMicros?: number;
  readonly maxAgeMs?: number;
}

/** A request that waits, and its place in the queue. */
export interface Waiter extends ReceivedRequest {
  readonly place: number;
  readonly since: number;
  deadline: number;
}

/** The places that a queue remembers beside those of its waiters. */
interface Pointers {
  readonly head: number;
  readonly tail: number;
  readonly first: number;
  readonly cursor: number;
}

/** The part of a renewal that the server needs. */
export type ReceivedRenewal = Pick<RenewRequest, 'key' | 'attempt' | 'fencingToken' | 'leaseMs' | 'mode'>;

/** The waiters of one lock by their places, as the scripts keep them in Redis (lib/redis/scripts/parts/queue.ts). */
export class MemoryQueue {
  /** The place of the next waiter. */
  head = 1;
  readonly #waiters = new Map<number, Waiter>();
  #tail = 0;
  /** The lowest place in use. Waiters before the head were passed over, because nobody listened for them. */
  #first = 1;
  #cursor = 1;
  #now = 0;

  constructor(private readonly writes = new Writes()) {}

  /** All waiters, in order, since places only grow; the leases of some may have ended. */
  get waiters(): Waiter[] {
    return [...this.#waiters.values()];
  }

  /** Whether every waiter that is left was passed over. */
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
    for (const waiter of this.#waiters.values()) if (waiter.attempt === attempt) return waiter;
    return undefined;
  }

  /** The waiter at a place; drops one whose lease has ended. */
  at(place: number): Waiter | undefined {
    const waiter = this.#waiters.get(place);
    if (!waiter) return undefined;
    if (waiter.deadline - this.#now > waiter.waiterLeaseMs) {
      // More is left than was ever granted: the clock stepped back.
      this.writes.add();
      waiter.deadline = this.#now + waiter.waiterLeaseMs;
    }
    if (waiter.deadline > this.#now) return waiter;
    this.writes.change();
    this.#waiters.delete(place);
    return undefined;
  }

  /** Counts the live waiters from the end, at most so many; looks at no more of them if all places together are fewer. */
  liveUpTo(most: number): number {
    let live = 0;
    if (this.#tail - this.#first + 1 < most) return live;
    for (let place = this.#tail; live < most && place >= this.#first; place -= 1) if (this.at(place)) live += 1;
    return live;
  }

  /** Adds a waiter at the end; one that waits already keeps its place. */
  join(request: ReceivedRequest): void {
    this.writes.add();
    const { place = (this.#tail += 1), since = this.#now, holder = request.holder } = this.of(request.attempt) ?? {};
    this.#waiters.set(place, { ...request, holder, place, since, deadline: this.#now + request.waiterLeaseMs });
  }

  /** Removes a waiter; returns whether it waited. */
  leave(attempt: string): boolean {
    const waiter = this.of(attempt);
    if (!waiter) return false;
    this.writes.change();
    return this.#waiters.delete(waiter.place);
  }

  /** Goes back to those who were passed over. */
  goBack(): void {
    this.head = this.#first;
  }

  /** Moves the head to the next place; a waiter that was passed over keeps its own. */
  goOn(isPassedOver: boolean): void {
    if (this.head === this.#first && !isPassedOver) this.#first += 1;
    this.head += 1;
  }

  /** Drops dead waiters: looks at some places, and at more as long as they are empty. */
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

  /** Counts the places anew when none is in use. */
  settle(): void {
    if (this.#first > this.#tail) this.pointers = { head: 1, tail: 0, first: 1, cursor: 1 };
  }

  /** The places that the queue remembers. */
  get pointers(): Pointers {
    return { head: this.head, tail: this.#tail, first: this.#first, cursor: this.#cursor };
  }

  set pointers({ head, tail, first, cursor }: Pointers) {
    this.head = head;
    this.#tail = tail;
    this.#first = first;
    this.#cursor = cursor;
  }
}
