import { AsyncLocalStorage } from 'node:async_hooks';
import { type LockLostError } from '../lock.errors.js';

/**
 * The signal of a lock. Its listeners are called in the async context of whoever asked for it first: a loss is noticed
 * by a timer, a message or somebody's look at the lock, and in their context a call of the listener could count as
 * nested in a stranger's lock.
 */
export class LossSignal {
  readonly #controller = new AbortController();
  readonly #inHolderContext = AsyncLocalStorage.snapshot();

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  abort(error: LockLostError): void {
    this.#inHolderContext(() => this.#controller.abort(error));
  }
}
