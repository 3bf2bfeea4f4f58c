import { CallContext } from '../call-context.js';
import { type StoreHold } from '../hold/store-hold.js';
import { type LockRequest } from './request.js';

/** What the acquisition of a call tells the turn, or the gate, of its process, and asks it. */
export interface TurnOfCall {
  /** The store has answered that the lock is busy. */
  onBusy(): void;
  /** The store has granted the lock; `wasBusy`: the call had to wait for others. */
  onGranted(hold: StoreHold, serverTimeMs: number, wasBusy: boolean): void;
  /** Returns the next call, which is to go on with the acquisition of one that was cancelled; null if there is none. */
  successor(): AcquireCall | null;
  /** The call has ended without the lock. */
  onFailed(): void;
}

/** A call of the app that acquires a lock: what it asks for, and its promise. */
export class AcquireCall {
  /** What `toResult` makes of the hold. */
  readonly result: Promise<unknown>;
  reject!: (error: unknown) => void;
  /** Whether there was a `waiting` event. */
  hasWaited = false;
  #resolve!: (result: unknown) => void;
  /** The async context of the caller, made late: most calls end with the first answer, which comes in it if somebody listens. */
  #context: CallContext | null = null;

  constructor(
    readonly request: LockRequest,
    /** Where the calls of its process wait for each other; null: it acquires the lock for itself. */
    readonly turn: TurnOfCall | null,
    /** When it began to ask, on the monotonic clock; it may have waited elsewhere before. */
    public beganAt: number,
    private readonly toResult: (hold: StoreHold) => unknown,
  ) {
    this.result = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.reject = reject;
    });
  }

  resolve(hold: StoreHold): void {
    this.#resolve(this.toResult(hold));
  }

  /** The call goes on in another context. */
  keepContext(): void {
    this.#context ??= new CallContext();
  }

  inContext(work: () => void): void {
    if (this.#context) this.#context.run(work);
    else work();
  }
}
