import { type AwaitedCalls } from '../awaited-calls.js';
import { wasHeldUp } from '../clock.js';
import { type ScheduledCall, type TimerQueue } from '../timer-queue.js';
import { READ_MS } from '../timing.js';

/**
 * The end of a hold in the store, for which its caller waits. It is not a promise: a plain call would create three more promises.
 * Use `toPromise` where one is needed.
 */
export class Ending {
  #isConfirmed: boolean | null = null;
  /** The callback of the caller: for most ends, the only one. */
  #first: ((isConfirmed: boolean) => void) | null = null;
  #others: ((isConfirmed: boolean) => void)[] | null = null;

  /** `isConfirmed`: the store confirmed that it was held. Does nothing the second time. */
  settle(isConfirmed = false): void {
    if (this.#isConfirmed !== null) return;
    this.#isConfirmed = isConfirmed;
    this.onEnd?.();
    this.#first?.(isConfirmed);
    this.#others?.forEach((tell) => tell(isConfirmed));
    this.#first = this.#others = null;
  }

  /** Calls back when it has ended, at once if it has. */
  onSettled(callback: (isConfirmed: boolean) => void): void {
    if (this.#isConfirmed !== null) callback(this.#isConfirmed);
    else if (this.#first) (this.#others ??= []).push(callback);
    else this.#first = callback;
  }

  /** Called first when it settles. */
  protected onEnd?(): void;

  toPromise(): Promise<boolean> {
    return new Promise((resolve) => this.onSettled(resolve));
  }

  /**
   * Returns a thenable for what `read` returns or throws after the end. Use it only to resolve a promise: it creates no further
   * promise.
   */
  andThen<T>(read: () => T): PromiseLike<T> {
    const then = (resolve: (value: T) => void, reject: (error: unknown) => void): void =>
      this.onSettled(() => {
        try {
          resolve(read());
        } catch (error) {
          reject(error);
        }
      });
    // oxlint-disable-next-line unicorn/no-thenable -- see above
    return { then } as PromiseLike<T>;
  }
}

/** The collaborators of a `LimitedEnding`. */
export interface EndingParts {
  readonly timers: TimerQueue;
  readonly awaited: AwaitedCalls;
  /** Called when a hold has ended. */
  readonly onGone: () => void;
}

/** An end for which its caller waits for at most `patienceMs` from `now`, a time of the monotonic clock. */
export class LimitedEnding extends Ending {
  #patience: ScheduledCall;

  constructor(
    now: number,
    patienceMs: number,
    private readonly parts: EndingParts,
  ) {
    super();
    parts.awaited.begin();
    const until = now + patienceMs;
    this.#patience = parts.timers.schedule(until, () => this.onLimit(until), now);
  }

  /** Does what `setDeadline` does, without its closures. */
  private onLimit(until: number): void {
    const { timers } = this.parts;
    if (!wasHeldUp(timers, until)) return this.settle();
    this.#patience = timers.schedule(timers.now() + READ_MS, () => this.settle());
  }

  protected override onEnd(): void {
    this.#patience.cancel();
    this.parts.awaited.end();
    this.parts.onGone();
  }
}
