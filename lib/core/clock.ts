import { MessageChannel } from 'node:worker_threads';
import { LATE_MS, READ_MS } from './timing.js';

/** The time as the core sees it; tests pass another one. */
export interface Clock {
  /** Monotonic milliseconds, with fractions; deadlines are counted on it. */
  now(): number;
  /** Wall-clock milliseconds; only a second opinion, because the monotonic clock stands still while a machine sleeps. */
  wallNow(): number;
  /** Calls back once after `delayMs`; gives a function that cancels. Never keeps the process alive. */
  setTimer(callback: () => void, delayMs: number): () => void;
  /** Keeps the process alive until the function that it gives is called. A clock that leaves it out lets the process end. */
  keepAlive?(): () => void;
}

/**
 * How long to wait still before a limit that was set for `at` counts as passed without an answer. After a standstill of
 * the event loop its timers run before the answers are read that came meanwhile.
 */
export const graceMs = (clock: Clock, at: number): number => (clock.now() - at > LATE_MS ? READ_MS : 0);

/** Calls back when nothing has come in `ms` milliseconds; gives a function that cancels. */
export function setDeadline(clock: Clock, callback: () => void, ms: number): () => void {
  const at = clock.now() + ms;
  let cancel = clock.setTimer(() => {
    const restMs = graceMs(clock, at);
    if (restMs === 0) callback();
    else cancel = clock.setTimer(callback, restMs);
  }, ms);
  return () => cancel();
}

/** One handle for all who keep the process alive. It is no timer: one of years would be in the way of fake timers. */
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

/** The clock of the running process. Timers are looked up at each call, so that fake timers of a test runner apply. */
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
