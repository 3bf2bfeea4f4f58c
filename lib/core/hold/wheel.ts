import { type ScheduledCall, type TimerQueue } from '../timer-queue.js';
import { turnMs } from '../timing.js';

/** What a wheel carries. It knows where it is, so that it is found without a search. */
export interface Carried<T> {
  /** Only the wheel writes it; null: it is not on the wheel. */
  bucket: Bucket<T> | null;
}

/** All that is due at one time. */
interface Bucket<T> {
  readonly at: number;
  readonly items: Set<T>;
  call: ScheduledCall | null;
}

/**
 * Times of many locks, with one timer for all that are due at about the same time. A time is rounded down to that of a bucket
 * (`turnMs`): what is due may be called a little early, but never late.
 */
export class Wheel<T extends Carried<T>> {
  readonly #buckets = new Map<number, Bucket<T>>();
  #size = 0;

  constructor(
    private readonly timers: TimerQueue,
    /** Called with what is due, which has left the wheel. */
    private readonly onDue: (item: T) => void,
  ) {}

  get size(): number {
    return this.#size;
  }

  *[Symbol.iterator](): Generator<T> {
    for (const { items } of this.#buckets.values()) yield* items;
  }

  /** Sets the only time of `item`. */
  put(item: T, at: number, now: number): void {
    this.remove(item);
    const turn = turnMs(at - now);
    const rounded = Math.floor(at / turn) * turn;
    const time = rounded > now ? rounded : at;
    let bucket = this.#buckets.get(time);
    if (!bucket) {
      bucket = { at: time, items: new Set(), call: null };
      this.#buckets.set(time, bucket);
      this.#schedule(bucket);
    }
    bucket.items.add(item);
    item.bucket = bucket;
    this.#size += 1;
  }

  /** Does nothing for what is not on the wheel. */
  remove(item: T): void {
    const { bucket } = item;
    if (!bucket) return;
    bucket.items.delete(item);
    item.bucket = null;
    this.#size -= 1;
    if (bucket.items.size > 0) return;
    bucket.call?.cancel();
    this.#forget(bucket);
  }

  #schedule(bucket: Bucket<T>): void {
    bucket.call = this.timers.schedule(bucket.at, () => this.#turn(bucket));
  }

  #turn(bucket: Bucket<T>): void {
    // What is put onto the wheel meanwhile is not for this turn.
    this.#forget(bucket);
    try {
      // It calls listeners, which may release other locks of this bucket.
      for (const item of bucket.items) {
        this.remove(item);
        this.onDue(item);
      }
    } finally {
      // Even if one throws (a logger of the app may): the times of the others must be met.
      if (bucket.items.size > 0) this.#schedule(bucket);
    }
  }

  #forget(bucket: Bucket<T>): void {
    if (this.#buckets.get(bucket.at) === bucket) this.#buckets.delete(bucket.at);
  }
}
