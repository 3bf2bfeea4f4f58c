import { setTimeout as sleep } from 'node:timers/promises';
import { type ManualClock } from '../../manual-clock.js';
import { promised } from './promised.js';

/** How long to pause between two looks at what is waited for. */
const STEP_MS = 10;

/** The time of a case: that of the process, or of a clock that is moved. */
export class CaseTime {
  constructor(
    private readonly clock: ManualClock | undefined,
    /** How long a case waits for what is promised. */
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

  /** Looks again and again until there is something; fails when nothing comes. */
  async until<T>(expectation: string, look: () => Promise<T | undefined> | T | undefined): Promise<T> {
    const deadline = this.now() + this.deadlineMs;
    for (;;) {
      const found = await look();
      if (found !== undefined) return found;
      promised(this.now() < deadline, `${expectation} within ${this.deadlineMs} ms`);
      await this.pass(STEP_MS);
    }
  }

  /** As the promise that is given; fails when it stays open. */
  async answer<T>(expectation: string, promise: Promise<T>): Promise<T> {
    await this.settles(expectation, promise);
    return promise;
  }

  /** What a promise came to; fails when it stays open, by the time of the process, as the store may be stuck. */
  async settles<T>(expectation: string, promise: Promise<T>): Promise<PromiseSettledResult<T>> {
    const giveUp = new AbortController();
    const late = sleep(this.deadlineMs, null, { signal: giveUp.signal }).catch(() => null);
    const result = await Promise.race([Promise.allSettled([promise]), late]);
    giveUp.abort();
    promised(result, `${expectation} to settle within ${this.deadlineMs} ms`);
    return result[0];
  }
}
