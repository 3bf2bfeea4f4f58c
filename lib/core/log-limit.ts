import { type Clock } from './clock.js';
import { printable } from './printable.js';
import { type ScheduledCall, type TimerQueue } from './timer-queue.js';
import { LINES_IN_FULL, LOG_WINDOW_MS } from './timing.js';

/** Reports the first lines of one kind, then the number of further ones: an outage affects all locks of a process at once. */
export class LogLimit {
  #reported = 0;
  #counted = 0;
  #until = -Infinity;
  #summary: ScheduledCall | null = null;

  /** `what` names the lines of this kind in the summary. */
  constructor(
    private readonly clock: Clock,
    private readonly timers: TimerQueue,
    private readonly what: string,
    private readonly report: (line: string) => void,
  ) {}

  add(line: string): void {
    const now = this.clock.now();
    if (now >= this.#until) {
      this.flush();
      this.#until = now + LOG_WINDOW_MS;
    }
    this.#reported += 1;
    if (this.#reported <= LINES_IN_FULL) return this.report(printable(line));
    this.#counted += 1;
    this.#summary ??= this.timers.schedule(this.#until, () => this.flush());
  }

  /** Reports the number of counted lines, and starts over. */
  flush(): void {
    this.#summary?.cancel();
    this.#summary = null;
    const counted = this.#counted;
    this.#reported = this.#counted = 0;
    this.#until = -Infinity;
    if (counted > 0) this.report(`Within ${LOG_WINDOW_MS / 1_000} s, ${counted} more ${this.what}.`);
  }
}
