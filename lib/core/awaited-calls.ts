import { type Clock } from './clock.js';

/**
 * Keeps the process alive while somebody awaits a call of the module. Nothing else of the module does: neither a lock
 * that is held nor a timer, so that a process ends by itself when there is nothing left to do.
 */
export class AwaitedCalls {
  #count = 0;
  #letGo: (() => void) | undefined;

  constructor(private readonly clock: Clock) {}

  /** Gives what `call` gives. */
  async keepAlive<T>(call: Promise<T>): Promise<T> {
    if (this.#count === 0) this.#letGo = this.clock.keepAlive?.();
    this.#count += 1;
    try {
      return await call;
    } finally {
      this.#count -= 1;
      if (this.#count === 0) this.#letGo?.();
    }
  }

  /** Gives what `all` gives, and keeps the process alive while the next one is awaited. */
  async *keepAliveEach<T>(all: AsyncIterable<T>): AsyncGenerator<T> {
    const iterator = all[Symbol.asyncIterator]();
    try {
      for (let next = await this.keepAlive(iterator.next()); !next.done; next = await this.keepAlive(iterator.next())) {
        yield next.value;
      }
    } finally {
      await iterator.return?.();
    }
  }
}
