import { type ScheduledCall, type TimerQueue } from '../timer-queue.js';
import { turnMs } from '../timing.js';

/** What a wheel carries. It knows where it is, so that it is found without a search. */
export interface Carried<T> {
  /** Only the wheel writes it; null: it is not on the wheel. */
  bucket: Bucket<T> | null;
  /** Its index in the bucket. */
  place: number;
}

/** All that is due at one time. */
interface Bucket<T> {
  readonly at: number;
  readonly items: T[];
  readonly turn: () => void;
  /** Cancelled while the bucket is empty. */
  call: ScheduledCall;
}

const NOT_SCHEDULED: ScheduledCall = { at: Infinity, cancel: () => undefined };

/**
 * Times of many locks, with one timer for all that are due at about the same time. A time is rounded down to that of a bucket
 * (`turnMs`): what is due may be called a little early, but never late. To change the time of a lock takes no search and no
 * closure, however many locks there are.
 */
export class Wheel<T extends Carried<T>> {
  readonly #buckets = new Map<number, Bucket<T>>();
  /** The bucket that was emptied last. The next lock is due at about the same time: it often goes into the same bucket. */
  #emptied: Bucket<T> | null = null;
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
    const bucket = this.#bucketOf(at, now);
    item.bucket = bucket;
    item.place = bucket.items.push(item) - 1;
    this.#size += 1;
  }

  /** Does nothing for what is not on the wheel. */
  remove(item: T): void {
    const { bucket, place } = item;
    if (!bucket) return;
    this.#takeOut(bucket, place);
    if (bucket.items.length > 0) return;
    bucket.call.cancel();
    if (this.#emptied && this.#emptied !== bucket) this.#forget(this.#emptied);
    this.#emptied = bucket;
  }

  #bucketOf(at: number, now: number): Bucket<T> {
    const turn = turnMs(at - now);
    const rounded = Math.floor(at / turn) * turn;
    const time = rounded > now ? rounded : at;
    const known = this.#buckets.get(time) ?? this.#newBucket(time);
    if (known.items.length === 0) this.#schedule(known);
    return known;
  }

  #newBucket(at: number): Bucket<T> {
    const bucket: Bucket<T> = { at, items: [], turn: () => this.#turn(bucket), call: NOT_SCHEDULED };
    this.#buckets.set(at, bucket);
    return bucket;
  }

  #schedule(bucket: Bucket<T>): void {
    if (this.#emptied === bucket) this.#emptied = null;
    bucket.call = this.timers.schedule(bucket.at, bucket.turn);
  }

  #turn(bucket: Bucket<T>): void {
    // What is put onto the wheel meanwhile is not for this turn.
    this.#forget(bucket);
    const { items } = bucket;
    try {
      // It calls listeners, which may release other locks of this bucket.
      while (items.length > 0) this.onDue(this.#takeOut(bucket, items.length - 1));
    } finally {
      // Even if one throws (a logger of the app may): the times of the others must be met.
      if (items.length > 0) this.#schedule(bucket);
    }
  }

  /** The last one of the bucket moves to the place of the one that leaves. */
  #takeOut({ items }: Bucket<T>, place: number): T {
    const item = items[place]!;
    const last = items.pop()!;
    if (last !== item) {
      items[place] = last;
      last.place = place;
    }
    item.bucket = null;
    this.#size -= 1;
    return item;
  }

  #forget(bucket: Bucket<T>): void {
    if (this.#buckets.get(bucket.at) === bucket) this.#buckets.delete(bucket.at);
  }
}
