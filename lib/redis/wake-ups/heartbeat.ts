import { type Clock } from '../../core/clock.js';
import { SUBSCRIBER_CHECK_MS, WAITER_SEEN_MS } from '../timing.js';

/** Runs a check repeatedly while calls wait, and for some seconds afterwards. */
export class Heartbeat {
  #waitersUntil = -Infinity;
  #isBeating = false;
  #isClosed = false;
  #cancel: (() => void) | undefined;

  /** `inOurContext` runs code that sets timers. */
  constructor(
    private readonly check: () => Promise<void>,
    private readonly clock: Clock,
    private readonly inOurContext: <R>(work: () => R) => R,
  ) {}

  /** A call waits. */
  onWaiting(): void {
    this.#waitersUntil = this.clock.now() + WAITER_SEEN_MS;
    if (this.#isBeating || this.#isClosed) return;
    this.#isBeating = true;
    this.#beatLater();
  }

  close(): void {
    this.#isClosed = true;
    this.#cancel?.();
  }

  #beatLater(): void {
    this.#cancel = this.inOurContext(() => this.clock.setTimer(() => void this.#beat(), SUBSCRIBER_CHECK_MS));
  }

  async #beat(): Promise<void> {
    this.#isBeating = this.clock.now() <= this.#waitersUntil;
    if (!this.#isBeating) return;
    await this.check();
    if (!this.#isClosed) this.#beatLater();
  }
}
