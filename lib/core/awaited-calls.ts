import { type Clock } from './clock.js';

/**
 * Keeps the process alive while a caller awaits a call of the module. Nothing else in the core does, neither a held lock
 * nor a timer: without connections, a process with nothing left to do exits.
 */
export class AwaitedCalls {
  #count = 0;
  #stopKeepingAlive: (() => void) | undefined;

  constructor(private readonly clock: Clock) {}

  /** A call begins; call `end` when it ends. `keepAlive` does both for a promise. */
  begin(): void {
    if (this.#count === 0) this.#stopKeepingAlive = this.clock.keepAlive?.();
    this.#count += 1;
  }

  end(): void {
    this.#count -= 1;
    if (this.#count === 0) this.#stopKeepingAlive?.();
  }

  /** Settles as `call` does. */
  keepAlive<T>(call: Promise<T>): Promise<T> {
    this.begin();
    return call.then(
      (value) => {
        this.end();
        return value;
      },
      (error: unknown) => {
        this.end();
        throw error;
      },
    );
  }

  /** Yields what `all` yields, and keeps the process alive while the next value is awaited. */
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
