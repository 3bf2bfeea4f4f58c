const BEAT_MS = 100;

/** Notices that this process, and most likely the whole machine, stalled. */
export class Standstill {
  #last = performance.now();
  #longestMs = 0;
  readonly #timer = setInterval(() => this.#beat(), BEAT_MS).unref();

  /** The longest time without a beat, in milliseconds. */
  get longestMs(): number {
    return Math.max(this.#longestMs, performance.now() - this.#last);
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  #beat(): void {
    this.#longestMs = this.longestMs;
    this.#last = performance.now();
  }
}
