import { type ScheduledCall, type TimerQueue } from '../timer-queue.js';
import { turnMs } from '../timing.js';

/** An item of a wheel. It refers to its bucket, so it is found without a search. */
export interface Carried<T> {
  /** Written only by the wheel; null: the item is not on the wheel. */
  bucket: Bucket<T> | null;
}

/** All items that are due at one time. */
interface Bucket<T> {
  readonly at: number;
  readonly items: Set<T>;
  call: ScheduledCall | null;
}

/**
 * Times of many locks, with one timer for all that are due at about the same time. A time is rounded down to that of a bucket
 * (`turnMs`): an item may be due a little early, but never late.
 */
export class Wheel<T extends Carried<T>> {
  readonly #buckets = new Map<number, Bucket<T>>();
  #size = 0;

  constructor(
    private readonly timers: TimerQueue,
    /** Called with each due item, which has left the wheel. */
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

  /** Does nothing if the item is not on the wheel. */
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
    // Items that are added meanwhile are not for this turn.
    this.#forget(bucket);
    try {
      // `onDue` calls listeners, which may release other locks of this bucket.
      for (const item of bucket.items) {
        this.remove(item);
        this.onDue(item);
      }
    } finally {
      // Even if one throws (a logger of the app may): the others must still be called in time.
      if (bucket.items.size > 0) this.#schedule(bucket);
    }
  }

  #forget(bucket: Bucket<T>): void {
    if (this.#buckets.get(bucket.at) === bucket) this.#buckets.delete(bucket.at);
  }
}
