import { CallContext } from '../call-context.js';
import { type LockLostError, type LockLostReason } from '../lock.errors.js';
import { type LostReply, TOKENS_OF_A_WRITER } from '../store/lock-store.js';

/** Why a hold is gone, according to the reply of the store for a key with this token. */
export function lossReasonOf(
  token: number,
  isDowngraded: boolean,
  { lastToken, revoked }: Pick<LostReply, 'lastToken' | 'revoked'>,
): LockLostReason {
  if (revoked) return 'revoked';
  // A downgrade uses up the tokens that the grant has reserved.
  const ownTokens = isDowngraded ? TOKENS_OF_A_WRITER : 1;
  return lastToken >= token + ownTokens ? 'taken' : 'expired';
}

/** The loss of one hold, announced once: first by the signal, then to the callbacks. */
export class Loss {
  #error: LockLostError | null = null;
  /** Created on demand: most calls never read it, and it is the most expensive object of a hold. */
  #signal: LossSignal | null = null;
  #callbacks: Set<(error: LockLostError) => void> | null = null;

  /** The loss of the lock; null if it was not lost. */
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
 * by a message or by any code that reads the lock. In such a context, a call of a listener could count as nested in a
 * lock of another caller.
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
