import { type StoreHold } from '../core/hold/store-hold.js';
import { findCurrentHold, runHolding } from '../core/reentry/context.js';
import { isAwaitable, withResult } from '../core/reentry/run.js';
import { type LeaderTerm } from './leadership.js';

/** One term: the hold of the leader, and the work that runs under it. */
export class Term {
  /** What the application sees of it. */
  readonly view: LeaderTerm;
  readonly #over = new AbortController();
  readonly #work = new Set<Promise<void>>();

  constructor(
    readonly hold: StoreHold,
    since: Date,
  ) {
    const { key, fencingToken } = hold;
    this.view = Object.freeze({ key, fencingToken, signal: this.#over.signal, since });
  }

  get isOver(): boolean {
    return this.#over.signal.aborted;
  }

  /** Whether it goes on, and its lease can be proven right now. */
  get isProven(): boolean {
    return !this.isOver && this.hold.held;
  }

  /** Whether the caller is, or was called by, the work of this term. */
  get isCaller(): boolean {
    const current = findCurrentHold(this.hold.key, this.hold.keeper);
    return current !== undefined && (current === this.hold || current.isInside(this.hold));
  }

  get hasWork(): boolean {
    return this.#work.size > 0;
  }

  /** Tells the work that the term is over. */
  end(error: Error): void {
    this.#over.abort(error);
  }

  /** Runs `work` as the holder of the lock, which is not released before the work has ended. */
  async run<T>(work: () => T): Promise<Awaited<T>> {
    const result = runHolding(this.hold, work);
    // Work that has ended already would end the term a few promises later.
    if (!isAwaitable(result)) return result as Awaited<T>;
    // Adopted once: a thenable (such as a database query) may begin its work each time its `then` is called.
    const adopted = Promise.resolve(result);
    const ended = adopted.then(
      () => undefined,
      () => undefined,
    );
    this.#work.add(ended);
    try {
      return await adopted;
    } finally {
      this.#work.delete(ended);
    }
  }

  /**
   * The same for a call that has a result, such as a scheduled method.
   * @throws LockLostError when the lock was lost meanwhile, even if the work returned (`error.result`)
   */
  async runCall(work: () => unknown): Promise<unknown> {
    const result = await this.run(work);
    const { lost } = this.hold;
    if (lost) throw withResult(lost, result, this.hold.mode);
    return result;
  }

  /** Resolves when all work has ended; call it after the end, when no more is added. */
  async workEnded(): Promise<void> {
    await Promise.all(this.#work);
  }
}
