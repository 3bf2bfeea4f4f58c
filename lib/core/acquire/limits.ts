import { onAbort } from '../abort-listener.js';
import { setDeadline } from '../clock.js';
import { type TimerQueue } from '../timer-queue.js';
import { FIRST_ANSWER_MS } from '../timing.js';
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
  #cancelLimit: (() => void) | undefined;

  constructor(
    private readonly timers: TimerQueue,
    private readonly call: AcquireCall,
    private readonly limited: LimitedCall,
    /** Whether the store has answered already. */
    isAnswered = false,
  ) {
    const { signal } = call.request.options;
    this.#stopListening = signal && onAbort(signal, () => limited.cancel(signal.reason));
    this.#setLimit(isAnswered ? this.#waitUntil : this.#firstAnswerUntil);
  }

  /** The first answer has come: from now on only `waitMs` counts. */
  onFirstAnswer(): void {
    this.#setLimit(this.#waitUntil);
  }

  stop(): void {
    this.#stopListening?.();
    this.#cancelLimit?.();
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

  #setLimit(at: number): void {
    this.#cancelLimit?.();
    const { timers, limited } = this;
    this.#cancelLimit = setDeadline(
      timers,
      () => limited.onLimit(),
      at - timers.now(),
      () => limited.isAnswerAwaited(),
    );
  }
}
