import { type LockMode } from '../lock.errors.js';

/** `entered`, or `closed`: the hold ended while this waited, so that there is nothing to enter any more. */
export type SlotOutcome = 'entered' | 'closed';

/** What a nested call is to others in the slot; `permit`: it uses the one permit of a semaphore that the hold has. */
export type SlotUse = LockMode | 'permit';

interface Waiter {
  readonly use: SlotUse;
  readonly settle: (outcome: SlotOutcome) => void;
}

/**
 * Orders the nested calls under one hold: what runs in parallel (`Promise.all`) enters one after the other, first in,
 * first out; readers share. So a hold that several calls re-enter still excludes them from each other, and one permit of a
 * semaphore is used by one of them at a time.
 */
export class LocalSlot {
  readonly #inside: Record<SlotUse, number> = { write: 0, read: 0, permit: 0 };
  #closed = false;
  readonly #queue: Waiter[] = [];

  /** Whether a nested call that writes is inside. */
  get isWritten(): boolean {
    return this.#inside.write > 0;
  }

  /** Whether a nested call that writes is inside, or waits to be. */
  get hasWriter(): boolean {
    return this.isWritten || this.#queue.some(({ use }) => use === 'write');
  }

  /** Calls back at once, or in its turn; gives a function that leaves the queue. */
  enter(use: SlotUse, settle: (outcome: SlotOutcome) => void): () => void {
    const waiter = { use, settle };
    this.#queue.push(waiter);
    this.#admit();
    return () => {
      const at = this.#queue.indexOf(waiter);
      if (at < 0) return;
      this.#queue.splice(at, 1);
      this.#admit();
    };
  }

  leave(use: SlotUse): void {
    this.#inside[use] -= 1;
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
        if (this.#excludes(next.use)) return;
        this.#inside[next.use] += 1;
      }
      this.#queue.shift();
      next.settle(this.#closed ? 'closed' : 'entered');
    }
  }

  #excludes(use: SlotUse): boolean {
    const { write, read, permit } = this.#inside;
    if (use === 'read') return write > 0;
    return write + permit + (use === 'write' ? read : 0) > 0;
  }
}
