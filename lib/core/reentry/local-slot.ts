import { type LockMode } from '../lock.errors.js';

/** `closed`: the outer hold was released while the call waited, so there is nothing left to enter. */
export type SlotOutcome = 'entered' | 'closed';

/** How a nested call uses the outer hold; `permit`: it uses the held permit of a semaphore. */
export type SlotUse = LockMode | 'permit';

interface Waiter {
  readonly use: SlotUse;
  readonly settle: (outcome: SlotOutcome) => void;
}

/**
 * Gives turns to the nested calls under one hold. Calls that run in parallel (`Promise.all`) enter one after the other,
 * first come, first served; readers share. So nested calls exclude each other although they share the outer hold, and the held
 * permit of a semaphore is used by one of them at a time.
 */
export class LocalSlot {
  readonly #inside: Record<SlotUse, number> = { write: 0, read: 0, permit: 0 };
  readonly #queue: Waiter[] = [];
  #closed: boolean;

  constructor(isClosed: boolean) {
    this.#closed = isClosed;
  }

  /** Whether a nested call that writes is inside, or waits for its turn. */
  get hasWriter(): boolean {
    return this.#inside.write > 0 || this.#queue.some(({ use }) => use === 'write');
  }

  /** Enters if the slot is free; returns whether it did. */
  tryEnter(use: SlotUse): boolean {
    if (this.#closed || this.#queue.length > 0 || this.#excludes(use)) return false;
    this.#inside[use] += 1;
    return true;
  }

  /** Calls back at once, or when its turn comes; returns a function that leaves the queue. */
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

  /** Rejects all waiting calls, and all later ones. */
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
