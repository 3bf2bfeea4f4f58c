import { LocalSlot } from '../reentry/local-slot.js';
import { checkDuration, MAX_LEASE_MS } from '../lock.options.js';
import {
  type LockLostError,
  type LockLostReason,
  type LockMode,
  LockNotHeldError,
  LockReentryError,
} from '../lock.errors.js';
import { type Lock } from '../lock.js';

/** How the work under a lock ended. */
export type WorkOutcome = 'done' | 'failed';

/** Notices when a handle is dropped. */
export interface HandleTracker {
  /** Nothing is to be noticed any more: it was given back, or lost. */
  forget(lock: Hold): void;
}

/**
 * What all handles have in common: nested calls may be inside when the holder gives the lock back (work that nobody
 * awaits); then the holder is through, and the hold itself ends when the last of them has left.
 */
export abstract class Hold implements Lock {
  readonly key: string;
  /** Who notices when it is dropped; nobody where the lock does not depend on that. */
  tracker: HandleTracker | null = null;
  #inside = 0;
  #slots: Map<string, LocalSlot> | null = null;
  /** Whether it was held until then. */
  #released: Promise<boolean> | null = null;
  #ended = false;
  #outcome: WorkOutcome | undefined;

  constructor(readonly keys: readonly string[]) {
    this.key = keys.join(', ');
  }

  /** Whose lock this is: two modules may each hold a lock of one key, in two places. */
  abstract readonly keeper: object;
  abstract readonly mode: LockMode;
  abstract readonly owner: string;
  abstract readonly fencingTokens: readonly number[];
  abstract readonly signal: AbortSignal;
  /** How the lock was lost, if it was. */
  abstract readonly lost: LockLostError | null;
  /** What is left of the lease in milliseconds, also when only nested calls keep the hold. */
  abstract readonly provenMs: number;
  /** Whether somebody asked for its signal, and may still go by it. */
  abstract readonly isWatched: boolean;
  /** Tells the holder that the lock is lost; the first reason stays. A nested call loses only what it alone keeps. */
  abstract lose(reason: LockLostReason, cause?: unknown): void;
  /** @throws what `downgrade` would throw before anything is sent */
  abstract checkDowngrade(): void;
  abstract downgrade(): Promise<void>;
  /** Whether the hold of `key` is one permit of a semaphore, which one call at a time may use. */
  abstract isPermit(key: string): boolean;
  /** How many calls, of any instance, may be inside with such a hold of `key`; `Infinity`: all who read. */
  abstract limitOf(key: string): number;
  /** Whether this is a nested lock that keeps `hold` from ending. */
  abstract keeps(hold: Hold): boolean;
  /** Calls back once when the lock is lost; gives a function that stops listening. */
  abstract onLost(callback: (error: LockLostError) => void): () => void;
  /** Extends the hold, also when only nested calls keep it. */
  abstract extendBy(leaseMs: number): Promise<void>;
  /** Ends the hold, and tells whether that proves that it was held; called once, when nobody is inside any more. */
  protected abstract end(outcome: WorkOutcome | undefined): Promise<boolean>;

  get fencingToken(): number {
    return this.fencingTokens[0]!;
  }

  get held(): boolean {
    return this.remainingMs > 0;
  }

  get remainingMs(): number {
    return this.isReleased ? 0 : this.provenMs;
  }

  /** Its holder has given it back. */
  get isReleased(): boolean {
    return this.#released !== null;
  }

  /** The hold itself is being given back. */
  get isEnded(): boolean {
    return this.#ended;
  }

  async extend(leaseMs: number): Promise<void> {
    checkDuration(leaseMs, 'leaseMs', { min: 1, max: MAX_LEASE_MS });
    this.checkHeld('extending');
    await this.extendBy(leaseMs);
  }

  async release(): Promise<boolean> {
    const isFirst = !this.isReleased;
    return (await this.finish(undefined)) && isFirst;
  }

  /**
   * Gives the lock back, saying how its work ended; tells whether it was held. Never rejects; the second time does
   * nothing.
   */
  finish(outcome: WorkOutcome | undefined): Promise<boolean> {
    if (this.#released) return this.#released;
    this.#outcome = outcome;
    const wasHeld = this.held;
    this.#released = Promise.resolve(wasHeld);
    this.tracker?.forget(this);
    for (const slot of this.#slots?.values() ?? []) slot.close();
    // The store may know better than a lease that was proven a while ago.
    if (this.#inside === 0) this.#released = this.#end().then((isProven) => (isProven || wasHeld) && !this.lost);
    return this.#released;
  }

  /** Ends the hold although nested calls may be inside: for a lock that was lost. */
  endNow(): void {
    void this.finish(undefined);
    if (!this.#ended) void this.#end();
  }

  /** Where nested calls on `key` enter. */
  slotOf(key: string): LocalSlot {
    this.#slots ??= new Map();
    const slot = this.#slots.get(key) ?? new LocalSlot();
    this.#slots.set(key, slot);
    return slot;
  }

  /** A nested call is inside. */
  retain(): void {
    this.#inside += 1;
  }

  letGo(): void {
    this.#inside -= 1;
    if (this.#inside === 0 && this.#released && !this.#ended) void this.#end();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release();
  }

  /** Nobody may write under a lock that becomes a read lock. */
  protected checkNoWriter(): void {
    if (![...(this.#slots?.values() ?? [])].some((slot) => slot.hasWriter)) return;
    const text = `A nested call writes, or is to write, under the lock "${this.key}"; await it before downgrading.`;
    throw new LockReentryError(text, this);
  }

  protected checkHeld(doing: string): void {
    if (this.lost) throw this.lost;
    if (!this.#released) return;
    throw new LockNotHeldError(`The lock "${this.key}" was released; acquire it again instead of ${doing} it.`, this);
  }

  /** Marked ended before anything is sent, so that a renewal in flight finds it so. */
  #end(): Promise<boolean> {
    this.#ended = true;
    return this.end(this.#outcome).catch(() => false);
  }
}
