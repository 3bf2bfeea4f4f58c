import { onAbort } from '../abort-listener.js';
import { wasHeldUp } from '../clock.js';
import { type ScheduledCall, type TimerQueue } from '../timer-queue.js';
import { FIRST_ANSWER_MS, READ_MS } from '../timing.js';
import { type AcquireCall } from './acquire-call.js';

/** The call that `Limits` ends. */
export interface LimitedCall {
  cancel(error: unknown): void;
  /** The time of the call is up. */
  onLimit(): void;
  isAnswerAwaited(): boolean;
}

/** Ends a call that still waits when its signal is aborted or its time is up. */
export class Limits {
  readonly #stopListening: (() => void) | undefined;
  #limit: ScheduledCall | null = null;

  constructor(
    private readonly timers: TimerQueue,
    private readonly call: AcquireCall,
    private readonly limited: LimitedCall,
    /** Whether the store has answered already. */
    { isAnswered, now }: { readonly isAnswered: boolean; readonly now: number },
  ) {
    const { signal } = call.request.options;
    this.#stopListening = signal && onAbort(signal, () => limited.cancel(signal.reason));
    this.#setLimit(isAnswered ? this.#waitUntil : this.#firstAnswerUntil, now);
  }

  /** The first answer has come: from now on only `waitMs` counts. */
  onFirstAnswer(): void {
    this.#setLimit(this.#waitUntil, this.timers.now());
  }

  stop(): void {
    this.#stopListening?.();
    this.#limit?.cancel();
  }

  get #waitUntil(): number {
    const { startedAt, options } = this.call.request;
    return startedAt + options.waitMs;
  }

  /**
   * The first answer may take longer than `waitMs`. If the call has waited elsewhere before, it may exceed `waitMs` by at most
   * `FIRST_ANSWER_MS`.
   */
  get #firstAnswerUntil(): number {
    const waitUntil = this.#waitUntil;
    return Math.min(Math.max(waitUntil, this.call.beganAt + FIRST_ANSWER_MS), waitUntil + FIRST_ANSWER_MS);
  }

  /** As `setDeadline` does, without its functions: most calls end long before, and each has a limit. */
  #setLimit(at: number, now: number): void {
    this.#limit?.cancel();
    // A limit that has passed already is not late.
    const due = Math.max(at, now);
    this.#limit = this.timers.schedule(due, () => this.#onTime(due), now);
  }

  #onTime(due: number): void {
    const { timers, limited } = this;
    if (!wasHeldUp(timers, due) || !limited.isAnswerAwaited()) return limited.onLimit();
    this.#limit = timers.schedule(timers.now() + READ_MS, () => limited.onLimit());
  }
}
