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
  /** The lock was released or lost: its handle may be dropped. */
  forget(lock: Hold): void;
}

/**
 * What all holds have in common: its caller releases it, and then it ends. Nested calls that nobody awaits may still be
 * inside at the release; the hold ends when the last of them has left.
 */
export abstract class Hold implements Lock {
  readonly key: string;
  /** Notices when the handle is dropped; null if the lock does not depend on that. */
  tracker: HandleTracker | null = null;
  #nestedCalls = 0;
  #slots: Map<string, LocalSlot> | null = null;
  /** Whether the lock was still held at its release; null before that. */
  #released: Promise<boolean> | null = null;
  #outcome: WorkOutcome | undefined;
  #isEnded = false;

  constructor(readonly keys: readonly string[]) {
    this.key = keys.join(', ');
  }

  /** The module that this lock belongs to: each module may hold a lock of the same key, in a store of its own. */
  abstract readonly keeper: object;
  abstract readonly mode: LockMode;
  abstract readonly owner: string;
  abstract readonly fencingTokens: readonly number[];
  abstract readonly signal: AbortSignal;
  /** Whether somebody asked for `signal`, and may still rely on it. */
  abstract readonly hasSignal: boolean;
  /** How the lock was lost; null if it was not. */
  abstract readonly lost: LockLostError | null;
  /** What is left of the proven lease, in milliseconds, also after the release while nested calls are inside. */
  abstract readonly provenMs: number;
  /**
   * Tells the holder that the lock is lost; the first reason counts. On a nested lock it does nothing until the outer
   * one is released: until then, the outer call holds it.
   */
  abstract lose(reason: LockLostReason, cause?: unknown): void;
  /** Calls back once when the lock is lost; returns a function that stops listening. */
  abstract onLost(callback: (error: LockLostError) => void): () => void;
  /** Extends the lease, also after the release while nested calls are inside. */
  abstract extendBy(leaseMs: number): Promise<void>;
  /** @throws what `downgrade` would throw before it sends anything */
  abstract checkDowngrade(): void;
  abstract downgrade(): Promise<void>;
  /** Whether `key` is held as one permit of a semaphore, which only one nested call at a time may use. */
  abstract isPermit(key: string): boolean;
  /** How many calls, of all instances, may hold `key` at the same time in this way; `Infinity` for readers. */
  abstract maxHoldersOf(key: string): number;
  /** Whether this is a nested lock inside `hold`, which cannot end before this one. */
  abstract isInside(hold: Hold): boolean;
  /** Ends the hold; returns whether that proves that it was held. Called once. */
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

  /** Whether its caller has released it. Nested calls may still be inside. */
  get isReleased(): boolean {
    return this.#released !== null;
  }

  /** Whether the hold itself has ended, or is about to. */
  get isEnded(): boolean {
    return this.#isEnded;
  }

  async extend(leaseMs: number): Promise<void> {
    checkDuration(leaseMs, 'leaseMs', { min: 1, max: MAX_LEASE_MS });
    this.checkHeld('extending');
    await this.extendBy(leaseMs);
  }

  release(): Promise<boolean> {
    return this.releaseAfter(undefined);
  }

  /**
   * Releases the lock, and says how the work under it ended. Never rejects.
   * @returns whether it was still held; false the second time
   */
  async releaseAfter(outcome: WorkOutcome | undefined): Promise<boolean> {
    if (this.#released) {
      await this.#released;
      return false;
    }
    this.#outcome = outcome;
    const wasHeld = this.held;
    this.#released = Promise.resolve(wasHeld);
    this.tracker?.forget(this);
    for (const slot of this.#slots?.values() ?? []) slot.close();
    // The store may know better than a lease that was proven a while ago.
    if (this.#nestedCalls === 0)
      this.#released = this.#endOnce().then((isProven) => (isProven || wasHeld) && !this.lost);
    return this.#released;
  }

  /** Ends a lost hold, even if it was not released or nested calls are inside. */
  endLost(): void {
    void this.release();
    if (!this.#isEnded) void this.#endOnce();
  }

  /** Where nested calls on `key` take their turns. */
  slotOf(key: string): LocalSlot {
    this.#slots ??= new Map();
    const slot = this.#slots.get(key) ?? new LocalSlot();
    this.#slots.set(key, slot);
    return slot;
  }

  /** A nested call is inside, or waits for its turn: the hold does not end before `removeNestedCall`. */
  addNestedCall(): void {
    this.#nestedCalls += 1;
  }

  removeNestedCall(): void {
    this.#nestedCalls -= 1;
    if (this.#nestedCalls === 0 && this.#released && !this.#isEnded) void this.#endOnce();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release();
  }

  /** A lock cannot become a read lock while a nested call writes under it. */
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

  /** Marks the hold as ended before anything is sent, so that a renewal in flight ignores its reply. */
  #endOnce(): Promise<boolean> {
    this.#isEnded = true;
    return this.end(this.#outcome).catch(() => false);
  }
}
