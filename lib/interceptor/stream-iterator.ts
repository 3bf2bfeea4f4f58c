import { onAbort } from '../core/abort-listener.js';
import { type OpenLock, type StreamLock, endQuietly } from './stream-lock.js';

type Result = IteratorResult<unknown, unknown>;

/** An iterator and the lock under which it is asked. */
interface HeldIterator {
  readonly lock: StreamLock;
  readonly inner: AsyncIterator<unknown, unknown, unknown>;
}

type Start = (signal: AbortSignal) => Promise<HeldIterator | null>;

const done = (value?: unknown): Result => ({ done: true, value });

/** An iterator that acquires its lock and calls the method at the first `next()`, and releases after the end. */
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

/** Asks for the iterator of what `method` returns, under the lock. */
export function iterateUnder(lock: StreamLock, method: () => unknown): HeldIterator {
  const inner = lock.run(() => (method() as AsyncIterable<unknown>)[Symbol.asyncIterator]());
  return { lock, inner };
}

/**
 * What a real async generator is to its callers. Between two calls nothing but this object refers to the lock, not even
 * a listener on its signal: that is how an iterator which was dropped before its end can be noticed.
 */
export class LockedIterator implements AsyncGenerator<unknown, unknown, unknown> {
  readonly #waiting = new AbortController();
  #start: Start | null;
  #held: HeldIterator | null;
  #tail: Promise<unknown> = Promise.resolve();

  /** One of the two is null: what starts the iteration, or what has been started. */
  constructor(start: Start | null, held: HeldIterator | null) {
    this.#start = start;
    this.#held = held;
  }

  next(value?: unknown): Promise<Result> {
    return this.#inTurn(async () => {
      const held = await this.#started();
      return held ? this.#ask(held, (inner) => inner.next(value)) : done();
    });
  }

  return(value?: unknown): Promise<Result> {
    this.#stopWaiting();
    return this.#inTurn(async () => {
      this.#start = null;
      if (!this.#held) return done(await value);
      return this.#ask(this.#held, async (inner) => (inner.return ? inner.return(value) : done(await value)));
    });
  }

  throw(error: unknown): Promise<Result> {
    this.#stopWaiting();
    return this.#inTurn(async () => {
      this.#start = null;
      if (!this.#held) throw error;
      return this.#ask(this.#held, async (inner) => {
        if (inner.throw) return inner.throw(error);
        await inner.return?.();
        throw error;
      });
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.return();
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  /** A call waits for those before it, as with a real generator. */
  #inTurn(serve: () => Promise<Result>): Promise<Result> {
    const served = this.#tail.then(serve);
    this.#tail = served.then(
      () => undefined,
      () => undefined,
    );
    return served;
  }

  /** Who ends the iteration does not want the lock any more: a `next()` that waits for it is told so at once. */
  #stopWaiting(): void {
    if (!this.#held) this.#waiting.abort();
  }

  async #started(): Promise<HeldIterator | null> {
    const start = this.#start;
    this.#start = null;
    if (!start) return this.#held;
    const { signal } = this.#waiting;
    try {
      this.#held = signal.aborted ? null : await start(signal);
    } catch (error) {
      if (!signal.aborted) throw error;
    }
    return this.#held;
  }

  async #ask(held: HeldIterator, ask: (inner: HeldIterator['inner']) => PromiseLike<Result>): Promise<Result> {
    const { lock, inner } = held;
    let result: Result;
    try {
      result = await untilLost(lock.signal, () => lock.run(() => ask(inner)));
      if (!result.done) return result;
    } catch (error) {
      this.#held = null;
      await giveUp(held, error);
      throw error;
    }
    this.#held = null;
    await lock.end('done');
    return result;
  }
}

/** The listener lives no longer than the call: see `LockedIterator`. */
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

/** After a loss the method is told to stop, but nobody waits for it: it may be anywhere in its work. */
async function giveUp({ lock, inner }: HeldIterator, error: unknown): Promise<void> {
  if (!lock.signal.aborted || error !== lock.signal.reason) return endQuietly(lock, 'failed');
  void endQuietly(lock, 'failed');
  const close = async (): Promise<unknown> => inner.return?.();
  lock.run(close).catch(() => undefined);
}
