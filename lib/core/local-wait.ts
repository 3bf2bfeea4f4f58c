import { onAbort } from './abort-listener.js';
import { type Clock } from './clock.js';
import { busyError, waitTimeoutError } from './busy-errors.js';
import { type LockError } from './lock.errors.js';
import { type LockEvent, type LockEvents } from './lock.events.js';
import { type ScheduledCall, type TimerQueue } from './timer-queue.js';

/** A call that waits for something in its own process: its promise, its signal and its limit. The first outcome counts. */
export class LocalWait<T = void> {
  readonly promise: Promise<T>;
  isOver = false;
  #resolve!: (value: T) => void;
  #reject!: (error: unknown) => void;
  #limit: ScheduledCall | null = null;
  readonly #stopListening: (() => void) | undefined;

  constructor(
    private readonly timers: TimerQueue,
    signal: AbortSignal | undefined,
    private readonly onEnd: () => void,
  ) {
    this.promise = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    this.#stopListening = signal && onAbort(signal, () => this.fail(signal.reason));
  }

  /** Calls back at `at`, a time of the monotonic clock, unless the wait is over by then. */
  limitBy(at: number, onLimit: () => void): void {
    this.#limit?.cancel();
    this.#limit = this.timers.schedule(at, onLimit);
  }

  succeed(value: T): void {
    if (this.#end()) this.#resolve(value);
  }

  fail(error: unknown): void {
    if (this.#end()) this.#reject(error);
  }

  #end(): boolean {
    if (this.isOver) return false;
    this.isOver = true;
    this.#limit?.cancel();
    this.#stopListening?.();
    this.onEnd();
    return true;
  }
}

/** Returns the error of a call whose time limit has passed, and emits the event. `holder`: what the call has waited for. */
export function localLimitError(
  { clock, events }: { readonly clock: Clock; readonly events: LockEvents },
  event: LockEvent,
  { waitMs, startedAt }: { readonly waitMs: number; readonly startedAt: number },
  holder: string,
): LockError {
  if (waitMs === 0) return busyError(event, { holder });
  const waitedMs = Math.round(clock.now() - startedAt);
  events.emit('timedOut', () => ({ ...event, waitedMs, holder }));
  return waitTimeoutError(event, waitedMs, { holder, ahead: 0 });
}
