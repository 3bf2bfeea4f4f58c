import { MessageChannel } from 'node:worker_threads';
import { LATE_MS, READ_MS } from './timing.js';

/** The time as the core sees it. Tests pass their own clock. */
export interface Clock {
  /** Monotonic milliseconds, with fractions. All deadlines are counted on it. */
  now(): number;
  /** Calls back once after `delayMs`. Returns a function that cancels. Never keeps the process alive. */
  setTimer(callback: () => void, delayMs: number): () => void;
  /** Wall-clock milliseconds: a second opinion only, because the monotonic clock stops while a machine sleeps. */
  wallNow(): number;
  /** Keeps the process alive until the returned function is called. A clock without this method lets the process end. */
  keepAlive?(): () => void;
}

/** The part of a clock that sets timers. */
export type Timers = Pick<Clock, 'now' | 'setTimer'>;

/** Whether a timer that was set for `at` fires late: the event loop was blocked, and answers may wait to be read. */
export const wasHeldUp = (timers: Timers, at: number): boolean => timers.now() - at > LATE_MS;

/**
 * Calls back in `ms` milliseconds; a little later if the event loop was blocked and an answer is awaited, because Node runs timers
 * before it reads the answers that have arrived. Returns a function that cancels.
 */
export function setDeadline(
  timers: Timers,
  callback: () => void,
  ms: number,
  isAnswerAwaited: () => boolean = () => true,
): () => void {
  // A deadline that has already passed is not late: the event loop was not blocked.
  const at = timers.now() + Math.max(ms, 0);
  let cancel = timers.setTimer(() => {
    if (wasHeldUp(timers, at) && isAnswerAwaited()) cancel = timers.setTimer(callback, READ_MS);
    else callback();
  }, ms);
  return () => cancel();
}

/** One handle for all callers of `keepAlive`. It is not a timer: a very long timer would disturb fake timers. */
class Pulse {
  #channel: MessageChannel | null = null;
  #count = 0;

  begin(): void {
    this.#channel ??= new MessageChannel();
    this.#count += 1;
    if (this.#count === 1) this.#channel.port1.ref();
  }

  end(): void {
    this.#count -= 1;
    if (this.#count === 0) this.#channel!.port1.unref();
  }
}

const pulse = new Pulse();

/** The clock of this process. `setTimeout` is looked up at each call, so that the fake timers of a test runner apply. */
export const systemClock: Clock = {
  now: () => performance.now(),
  wallNow: () => Date.now(),
  setTimer(callback, delayMs) {
    const timer = setTimeout(callback, delayMs);
    timer.unref?.();
    return () => clearTimeout(timer);
  },
  keepAlive() {
    pulse.begin();
    return () => pulse.end();
  },
};
