import { CallContext } from '../call-context.js';
import { type LockLostError } from '../lock.errors.js';

/** The loss of one hold, announced once: first by the signal, then to the callbacks. */
export class Loss {
  #error: LockLostError | null = null;
  /** Created on demand: most calls never read it, and it is the most expensive object of a hold. */
  #signal: LossSignal | null = null;
  #callbacks: Set<(error: LockLostError) => void> | null = null;

  /** How the lock was lost; null if it was not. */
  get error(): LockLostError | null {
    return this.#error;
  }

  /** Aborted with the error of the loss. */
  get signal(): AbortSignal {
    if (!this.#signal) {
      this.#signal = new LossSignal();
      if (this.#error) this.#signal.abort(this.#error);
    }
    return this.#signal.signal;
  }

  get hasSignal(): boolean {
    return this.#signal !== null;
  }

  /** Calls back when the lock is lost; returns a function that stops listening. */
  onLost(callback: (error: LockLostError) => void): () => void {
    const callbacks = (this.#callbacks ??= new Set());
    callbacks.add(callback);
    return () => void callbacks.delete(callback);
  }

  /** Aborts the signal and calls back; does nothing the second time. */
  announce(error: LockLostError): void {
    if (this.#error) return;
    this.#error = error;
    this.#signal?.abort(error);
    for (const callback of this.#callbacks ?? []) callback(error);
  }
}

/**
 * The signal of a lock. Its listeners run in the async context of the code that first read it. A loss is noticed by a timer,
 * by a message or by any code that looks at the lock. In such a context, a call of a listener could count as nested in a
 * lock of somebody else.
 */
class LossSignal {
  readonly #controller = new AbortController();
  readonly #holderContext = new CallContext();

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  abort(error: LockLostError): void {
    this.#holderContext.run(() => this.#controller.abort(error));
  }
}
