/** The time as the core sees it; tests pass another one. */
export interface Clock {
  /** Monotonic milliseconds, with fractions; deadlines are counted on it. */
  now(): number;
  /** Wall-clock milliseconds; only a second opinion, because the monotonic clock stands still while a machine sleeps. */
  wallNow(): number;
  /** Calls back once after `delayMs`; gives a function that cancels. Never keeps the process alive. */
  setTimer(callback: () => void, delayMs: number): () => void;
}

/** The clock of the running process. Timers are looked up at each call, so that fake timers of a test runner apply. */
export const systemClock: Clock = {
  now: () => performance.now(),
  wallNow: () => Date.now(),
  setTimer(callback, delayMs) {
    const timer = setTimeout(callback, delayMs);
    timer.unref?.();
    return () => clearTimeout(timer);
  },
};
