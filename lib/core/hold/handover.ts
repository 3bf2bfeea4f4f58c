import { type LockLostReason } from '../lock.errors.js';
import { type Ending } from './ending.js';

/** The hold of a call that has ended. */
interface EndedHold {
  /** The hold was lost before its end. */
  loseAfterEnd(reason: LockLostReason): void;
}

/**
 * The calls of one grant that have ended and handed the hold on. Each waits for the next proof that the hold still existed at its
 * end: an answer of the store to a command that was sent after the end.
 */
export class Handover<H extends EndedHold> {
  /** Whether a renewal for the proof is in flight: one at a time. */
  isProving = false;
  #ended: { readonly hold: H; readonly ending: Ending }[] = [];
  #proven = 0;

  /** The number of calls, counted from the grant, that a command sent now can prove. */
  get count(): number {
    return this.#proven + this.#ended.length;
  }

  /** The holds that wait for a proof. */
  get unproven(): readonly H[] {
    return this.#ended.map(({ hold }) => hold);
  }

  add(hold: H, ending: Ending): void {
    this.#ended.push({ hold, ending });
  }

  /** The first `count` calls had the lock until their end. */
  prove(count: number): void {
    const proven = Math.max(count - this.#proven, 0);
    this.#proven += proven;
    for (const { ending } of this.#ended.splice(0, proven)) ending.settle(true);
  }

  /** The store has answered that the hold is gone: each call that ended since the last proof may have lost it. */
  lose(reason: LockLostReason): void {
    for (const { hold } of this.#ended) hold.loseAfterEnd(reason);
    this.giveUp();
  }

  /** No proof will come: the same as a release without an answer. Nothing is handed on from then on. */
  giveUp(): void {
    for (const { ending } of this.#ended.splice(0)) ending.settle();
  }
}
