import { type TimerQueue } from '../timer-queue.js';
import { type AcquireCall } from './acquire-call.js';
import { type LimitedCall, Limits } from './limits.js';

/** What a call that waits tells its turn. */
interface WaitersTurn {
  /** Its time is up. */
  onLimit(waiter: TurnWaiter): void;
  /** It is cancelled. */
  leave(waiter: TurnWaiter, error: unknown): void;
}

/** A call that waits behind others of its process. */
export class TurnWaiter implements LimitedCall {
  readonly #limits: Limits;

  constructor(
    private readonly turn: WaitersTurn,
    readonly call: AcquireCall,
    readonly nr: number,
    timers: TimerQueue,
    isAnswered: boolean,
  ) {
    this.#limits = new Limits(timers, call, this, isAnswered);
  }

  isAnswerAwaited(): boolean {
    return false;
  }

  /** The call that asks the store has learnt that the lock is busy. */
  onAnswer(): void {
    this.#limits.onFirstAnswer();
  }

  onLimit(): void {
    this.turn.onLimit(this);
  }

  cancel(error: unknown): void {
    this.turn.leave(this, error);
  }

  stop(): void {
    this.#limits.stop();
  }
}
