import { type Clock } from './clock.js';
import { printable } from './printable.js';
import { type ScheduledCall, type TimerQueue } from './timer-queue.js';
import { LINES_IN_FULL, LOG_WINDOW_MS } from './timing.js';

/** Says the first lines of a kind, and how many more there were: an outage meets all locks and calls of a process at once. */
export class LogLimit {
  #said = 0;
  #untold = 0;
  #until = -Infinity;
  #summary: ScheduledCall | null = null;

  /** `what`: that of which there were more, for people. */
  constructor(
    private readonly clock: Clock,
    private readonly timers: TimerQueue,
    private readonly what: string,
    private readonly say: (line: string) => void,
  ) {}

  add(line: string): void {
    const now = this.clock.now();
    if (now >= this.#until) {
      this.flush();
      this.#until = now + LOG_WINDOW_MS;
    }
    this.#said += 1;
    if (this.#said <= LINES_IN_FULL) return this.say(printable(line));
    this.#untold += 1;
    this.#summary ??= this.timers.schedule(this.#until, () => this.flush());
  }

  /** Tells how many were not told, and begins anew. */
  flush(): void {
    this.#summary?.cancel();
    this.#summary = null;
    const untold = this.#untold;
    this.#said = this.#untold = 0;
    this.#until = -Infinity;
    if (untold > 0) this.say(`Within ${LOG_WINDOW_MS / 1_000} s, ${untold} more ${this.what}.`);
  }
}
