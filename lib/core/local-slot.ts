import { type LockMode } from './lock.errors.js';

/** `entered`, or `closed`: the hold ended while this waited, so that there is nothing to enter any more. */
export type SlotOutcome = 'entered' | 'closed';

interface Waiter {
  readonly mode: LockMode;
  readonly settle: (outcome: SlotOutcome) => void;
}

/**
 * Orders the nested calls under one hold: what runs in parallel (`Promise.all`) enters one after the other, first in,
 * first out; readers share. So a hold that several calls re-enter still excludes them from each other.
 */
export class LocalSlot {
  #readers = 0;
  #writers = 0;
  #closed = false;
  readonly #queue: Waiter[] = [];

  /** Whether a nested call that writes is inside. */
  get isWritten(): boolean {
    return this.#writers > 0;
  }

  /** Whether a nested call that writes is inside, or waits to be. */
  get hasWriter(): boolean {
    return this.isWritten || this.#queue.some(({ mode }) => mode === 'write');
  }

  /** Calls back at once, or in its turn; gives a function that leaves the queue. */
  enter(mode: LockMode, settle: (outcome: SlotOutcome) => void): () => void {
    const waiter = { mode, settle };
    this.#queue.push(waiter);
    this.#admit();
    return () => {
      const at = this.#queue.indexOf(waiter);
      if (at < 0) return;
      this.#queue.splice(at, 1);
      this.#admit();
    };
  }

  leave(mode: LockMode): void {
    if (mode === 'write') this.#writers -= 1;
    else this.#readers -= 1;
    this.#admit();
  }

  /** Lets nobody in any more. */
  close(): void {
    this.#closed = true;
    this.#admit();
  }

  #admit(): void {
    for (let next = this.#queue[0]; next; next = this.#queue[0]) {
      if (!this.#closed) {
        if (this.#writers > 0 || (next.mode === 'write' && this.#readers > 0)) return;
        if (next.mode === 'write') this.#writers += 1;
        else this.#readers += 1;
      }
      this.#queue.shift();
      next.settle(this.#closed ? 'closed' : 'entered');
    }
  }
}
