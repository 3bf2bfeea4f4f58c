import { ManualClock } from '../../../lib/testing/manual-clock.js';

export { settled } from '../../../lib/testing/manual-clock.js';

/** The clock of the testing kit, which also records the requested delays. */
export class FakeClock extends ManualClock {
  /** In order. */
  readonly delays: number[] = [];
  /** How many keep the process alive. */
  keptAlive = 0;
  readonly #cancels: (() => void)[] = [];

  constructor(now = 5_000) {
    super(1_700_000_000_000);
    this.jump(now);
  }

  keepAlive(): () => void {
    this.keptAlive += 1;
    return () => void (this.keptAlive -= 1);
  }

  override setTimer(callback: () => void, delayMs: number): () => void {
    this.delays.push(delayMs);
    const cancel = super.setTimer(callback, delayMs);
    this.#cancels.push(cancel);
    return cancel;
  }

  /** As a test runner does with its fake timers when a test ends. */
  dropTimers(): void {
    for (const cancel of this.#cancels.splice(0)) cancel();
  }
}
