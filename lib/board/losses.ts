import { type LockEvents } from '../core/lock.events.js';
import { EventListeners } from '../core/event-listeners.js';

/** How many losses an instance remembers. */
const MAX_LOSSES = 200;

/** A loss, as a page gets it. */
export interface LossView {
  /** Tells it from others. */
  readonly id: string;
  readonly at: number;
  readonly key: string;
  readonly where: string;
  readonly mode: string;
  readonly heldMs: number;
  readonly reason: string;
  readonly token: string;
}

/** Remembers the last losses of this instance, the latest first. */
export class OwnLosses {
  readonly #losses: LossView[] = [];
  readonly #listeners: EventListeners;

  constructor(events: LockEvents) {
    this.#listeners = new EventListeners(events).on(
      'lost',
      ({ key, where, mode, heldMs, reason, attempt, ...event }) => {
        const token = String(event.fencingToken);
        this.#losses.unshift({ id: `${attempt} ${token}`, at: Date.now(), key, where, mode, heldMs, reason, token });
        this.#losses.splice(MAX_LOSSES);
      },
    );
  }

  get all(): readonly LossView[] {
    return this.#losses;
  }

  stop(): void {
    this.#listeners.stop();
  }
}
