import { setTimeout as sleep } from 'node:timers/promises';
import { type ManualClock } from '../../manual-clock.js';
import { promised } from './promised.js';

/** The pause between two looks at a condition. */
const STEP_MS = 10;

/** The time of a case: that of the process, or of a clock that the case moves. */
export class CaseTime {
  constructor(
    private readonly clock: ManualClock | undefined,
    /** How many milliseconds a case waits for a promise to be kept. */
    readonly deadlineMs: number,
  ) {}

  /** Monotonic milliseconds. */
  now(): number {
    return this.clock ? this.clock.now() : performance.now();
  }

  async pass(ms: number): Promise<void> {
    if (this.clock) await this.clock.advance(ms);
    else await sleep(ms);
  }

  /** Looks again and again until there is a value; fails at the deadline. */
  async until<T>(expectation: string, look: () => Promise<T | undefined> | T | undefined): Promise<T> {
    const deadline = this.now() + this.deadlineMs;
    for (;;) {
      const found = await look();
      if (found !== undefined) return found;
      promised(this.now() < deadline, `${expectation} within ${this.deadlineMs} ms`);
      await this.pass(STEP_MS);
    }
  }

  /** Returns what a promise resolves to; fails when it stays open. */
  async answer<T>(expectation: string, promise: Promise<T>): Promise<T> {
    await this.settles(expectation, promise);
    return promise;
  }

  /** Returns the result of a promise; fails when it stays open, by the time of the process: the store may be stuck. */
  async settles<T>(expectation: string, promise: Promise<T>): Promise<PromiseSettledResult<T>> {
    const giveUp = new AbortController();
    const late = sleep(this.deadlineMs, null, { signal: giveUp.signal }).catch(() => null);
    const result = await Promise.race([Promise.allSettled([promise]), late]);
    giveUp.abort();
    promised(result, `${expectation} to settle within ${this.deadlineMs} ms`);
    return result[0];
  }
}
