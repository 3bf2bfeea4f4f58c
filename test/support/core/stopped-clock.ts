import { type Clock, systemClock } from '../../../lib/core/clock.js';

/** The clock of a process that can be stopped: then no timer fires, and the time goes on. */
export class StoppedClock implements Clock {
  readonly #due: (() => void)[] = [];
  protected stoppedSince: number | null = null;

  get isStopped(): boolean {
    return this.stoppedSince !== null;
  }

  now = (): number => systemClock.now();

  wallNow = (): number => systemClock.wallNow();

  setTimer(callback: () => void, delayMs: number): () => void {
    const fire = (): void => (this.isStopped ? void this.#due.push(fire) : callback());
    const cancel = systemClock.setTimer(fire, delayMs);
    return () => {
      cancel();
      const at = this.#due.indexOf(fire);
      if (at >= 0) this.#due.splice(at, 1);
    };
  }

  stop(): void {
    this.stoppedSince = systemClock.now();
  }

  goOn(): void {
    this.stoppedSince = null;
    for (const fire of this.#due.splice(0)) fire();
  }
}

/** The clock of a machine that can be suspended: then its monotonic clock stands still, too. */
export class SleepyClock extends StoppedClock {
  #sleptMs = 0;

  override now = (): number => (this.stoppedSince ?? systemClock.now()) - this.#sleptMs;

  override goOn(): void {
    if (this.stoppedSince !== null) this.#sleptMs += systemClock.now() - this.stoppedSince;
    super.goOn();
  }
}
