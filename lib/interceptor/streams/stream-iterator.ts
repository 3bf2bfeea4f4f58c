import { onAbort } from '../../core/abort-listener.js';
import { type OpenLock, type StreamLock, endQuietly } from './stream-lock.js';

type Result = IteratorResult<unknown, unknown>;

interface HeldIterator {
  readonly lock: StreamLock;
  readonly inner: AsyncIterator<unknown, unknown, unknown>;
}

type Start = (signal: AbortSignal) => Promise<HeldIterator | null>;
type Ask = (inner: HeldIterator['inner']) => PromiseLike<Result>;

const done = (value?: unknown): Result => ({ done: true, value });

/** Returns an iterator that acquires its lock and calls the method at the first `next()`, and releases after the end. */
export function lockedAsyncIterable(open: OpenLock, method: () => unknown): LockedIterator {
  return new LockedIterator(async (signal) => {
    const lock = await open(signal);
    if (!lock) return null;
    try {
      lock.signal.throwIfAborted();
      if (!signal.aborted) return iterateUnder(lock, method);
    } catch (error) {
      await endQuietly(lock, 'failed');
      throw error;
    }
    await endQuietly(lock, 'failed');
    return null;
  }, null);
}

export function iterateUnder(lock: StreamLock, method: () => unknown): HeldIterator {
  const inner = lock.run(() => (method() as AsyncIterable<unknown>)[Symbol.asyncIterator]());
  return { lock, inner };
}

/**
 * Behaves like a real async generator. Between two calls, only this object refers to the lock: not even a listener on its
 * signal does, so the garbage collection of a dropped iterator can be noticed.
 */
export class LockedIterator implements AsyncGenerator<unknown, unknown, unknown> {
  readonly #waiting = new AbortController();
  #start: Start | null;
  /** The started iterator; null if not started, or if the iteration is over. */
  #held: Promise<HeldIterator | null>;
  #isStarted = false;
  #isOver = false;
  readonly #underWay = new Set<Promise<unknown>>();

  /** One of the two is null: the function that starts the iteration, or the iterator that was started. */
  constructor(start: Start | null, held: HeldIterator | null) {
    this.#start = start;
    this.#held = Promise.resolve(held);
    this.#isStarted = held !== null;
  }

  next(value?: unknown): Promise<Result> {
    this.#begin();
    return this.#call(
      (inner) => inner.next(value),
      async () => done(),
    );
  }

  return(value?: unknown): Promise<Result> {
    this.#stopWaiting();
    const otherwise = async (): Promise<Result> => done(await value);
    const end = (inner: HeldIterator['inner']) => (inner.return ? inner.return(value) : otherwise());
    return this.#call(end, otherwise, true);
  }

  throw(error: unknown): Promise<Result> {
    this.#stopWaiting();
    const end = async (inner: HeldIterator['inner']): Promise<Result> => {
      if (inner.throw) return inner.throw(error);
      await inner.return?.();
      throw error;
    };
    return this.#call(end, () => Promise.reject(error), true);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.return();
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  #begin(): void {
    const start = this.#start;
    this.#start = null;
    if (!start) return;
    const { signal } = this.#waiting;
    const begin = async (): Promise<HeldIterator | null> => {
      try {
        // Not in this turn: an iteration that is ended at once acquires no lock.
        await Promise.resolve();
        if (signal.aborted) return null;
        const held = await start(signal);
        this.#isStarted = held !== null;
        return held;
      } catch (error) {
        if (signal.aborted) return null;
        this.#held = Promise.resolve(null);
        throw error;
      }
    };
    this.#held = begin();
  }

  /** The iteration was ended before it got its lock: a `next()` that waits for the lock resolves at once. */
  #stopWaiting(): void {
    this.#start = null;
    if (!this.#isStarted) this.#waiting.abort();
  }

  /**
   * Calls reach the inner iterator in their order and do not wait for each other, as without a lock: a `return()` may end
   * a `next()` that waits for a value.
   */
  async #call(ask: Ask, otherwise: () => Promise<Result>, isEnd = false): Promise<Result> {
    const held = await this.#held;
    if (!held || this.#isOver) return otherwise();
    // A generator ends after the pending value. If that value never comes, the lock must not stay held forever.
    if (isEnd && this.#underWay.size > 0) held.lock.loseAfterLease?.();
    return this.#ask(held, ask);
  }

  async #ask(held: HeldIterator, ask: Ask): Promise<Result> {
    const { lock, inner } = held;
    const answer = untilLost(lock.signal, () => lock.run(() => ask(inner)));
    this.#underWay.add(answer);
    let result: Result;
    try {
      result = await answer.finally(() => this.#underWay.delete(answer));
      if (!result.done || this.#isOver) return result;
    } catch (error) {
      if (this.#isOver) throw error;
      this.#isOver = true;
      if (!isLoss(lock, error)) await this.#idle();
      await endAfter(held, error);
      throw error;
    }
    this.#isOver = true;
    await this.#idle();
    await lock.end('done');
    return result;
  }

  /** The lock is not released while a call is still at work. */
  async #idle(): Promise<void> {
    await Promise.allSettled(this.#underWay);
  }
}

/** Rejects when the lock is lost. Its listener is removed after the call: see `LockedIterator`. */
async function untilLost<T>(signal: AbortSignal, ask: () => PromiseLike<T>): Promise<T> {
  signal.throwIfAborted();
  let stop = (): void => {};
  const lost = new Promise<never>((_resolve, reject) => {
    stop = onAbort(signal, () => reject(signal.reason as Error));
  });
  try {
    return await Promise.race([ask(), lost]);
  } finally {
    stop();
  }
}

const isLoss = ({ signal }: StreamLock, error: unknown): boolean => signal.aborted && error === signal.reason;

/** After a loss the iterator is closed, but the caller does not wait for that: the method may still be at work. */
async function endAfter({ lock, inner }: HeldIterator, error: unknown): Promise<void> {
  if (!isLoss(lock, error)) return endQuietly(lock, 'failed');
  void endQuietly(lock, 'failed');
  const close = async (): Promise<unknown> => inner.return?.();
  lock.run(close).catch(() => undefined);
}
