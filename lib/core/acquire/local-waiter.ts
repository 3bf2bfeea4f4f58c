import { type TimerQueue } from '../timer-queue.js';
import { type AcquireCall } from './acquire-call.js';
import { type LimitedCall, Limits } from './limits.js';

/** What a call that waits tells the queue that it is in. */
export interface LocalQueue {
  /** Its time is up. */
  onLimit(waiter: LocalWaiter): void;
  /** It is cancelled. */
  leave(waiter: LocalWaiter, error: unknown): void;
}

/** A call that waits behind others of its process. It is made when the call begins. */
export class LocalWaiter implements LimitedCall {
  readonly #limits: Limits;

  constructor(
    private readonly queue: LocalQueue,
    readonly call: AcquireCall,
    timers: TimerQueue,
    /** Whether the lock is known to be busy. */
    isAnswered: boolean,
  ) {
    this.#limits = new Limits(timers, call, this, { isAnswered, now: call.beganAt });
  }

  isAnswerAwaited(): boolean {
    return false;
  }

  /** The call that asks the store has learnt that the lock is busy. */
  onAnswer(): void {
    this.#limits.onFirstAnswer();
  }

  onLimit(): void {
    this.queue.onLimit(this);
  }

  cancel(error: unknown): void {
    this.queue.leave(this, error);
  }

  stop(): void {
    this.#limits.stop();
  }
}
