import { type LockEvents } from '../core/lock.events.js';
import { EventListeners } from '../core/event-listeners.js';

const MINUTE_MS = 60_000;

/** Counts the losses of the last minute. */
export class RecentLosses {
  readonly #times: number[] = [];
  readonly #listeners: EventListeners;

  /** `now`: a monotonic clock in milliseconds. */
  constructor(
    events: LockEvents,
    private readonly now: () => number = () => performance.now(),
  ) {
    this.#listeners = new EventListeners(events).on('lost', () => {
      this.#forget();
      this.#times.push(this.now());
    });
  }

  get count(): number {
    this.#forget();
    return this.#times.length;
  }

  stop(): void {
    this.#listeners.stop();
  }

  #forget(): void {
    const from = this.now() - MINUTE_MS;
    while (this.#times.length > 0 && this.#times[0]! <= from) this.#times.shift();
  }
}
