import { checkTransferOptions } from '../call-arguments.js';
import { nestedWriterError, ofCallError, releasedError } from '../error-texts.js';
import { type LockLostError, type LockLostReason, type LockMode } from '../lock.errors.js';
import { type Lock } from '../lock.js';
import { MAX_LEASE_MS } from '../lock.options.js';
import { duration } from '../option-checks.js';
import { type Ending } from './ending.js';
import { LocalSlot } from '../reentry/local-slot.js';
import { type TransferredHold, transferText } from './transfer-text.js';

/** How the work under a lock ended. */
export type WorkOutcome = 'done' | 'failed';

/** Notices when a handle is garbage-collected before its release, or when the lock of a leader is released. */
export interface HandleTracker {
  /** The lock was released or lost, so its handle may be dropped. */
  forget(): void;
}

/** The module of a hold. */
export interface HoldModule {
  /** Throws LockConfigurationError if its store cannot let a hold change hands. */
  checkTransfer(): void;
}

/**
 * The released holds that their last nested call has left, while they end. The end of one may let the next outer one end: a recursion
 * could overflow the stack.
 */
let left: Hold[] | null = null;

/**
 * The base of all holds. After the caller has released a hold, the hold ends. Nested calls that were not awaited may still be
 * inside at the release; then the hold ends when the last of them has left.
 */
export abstract class Hold implements Lock {
  readonly #names: string | readonly string[];
  /** Watches the handle of this hold, or is the leader that has it; null if it has neither. */
  tracker: HandleTracker | null = null;
  #nestedCalls = 0;
  /** In the order of the keys; each slot is created when a nested call first asks for it. */
  #slots: (LocalSlot | undefined)[] | null = null;
  #isReleased = false;
  /** Null if there is nothing to wait for. */
  #ending: Ending | null = null;
  #outcome: WorkOutcome | undefined = undefined;
  #isEnded = false;

  /** `names`: one key, or several. */
  constructor(names: string | readonly string[]) {
    this.#names = names;
  }

  get key(): string {
    return typeof this.#names === 'string' ? this.#names : this.#names.join(', ');
  }

  get keys(): readonly string[] {
    return typeof this.#names === 'string' ? [this.#names] : this.#names;
  }

  /** Identifies the module of this hold (its `Holds`): each module may hold the same key, in its own store. */
  abstract readonly keeper: HoldModule;
  abstract readonly mode: LockMode;
  abstract readonly owner: string;
  abstract readonly fencingTokens: readonly number[];
  abstract readonly signal: AbortSignal;
  /** Whether `signal` was read, so that code may rely on it. */
  abstract readonly hasSignal: boolean;
  /** The loss of the lock; null if it was not lost. */
  abstract readonly lost: LockLostError | null;
  /** The rest of the proven lease, in milliseconds; also after the release while nested calls are inside. */
  abstract readonly provenMs: number;
  /**
   * Marks the lock as lost and notifies its holder; the first reason counts. A nested hold ignores it until the outer hold
   * is released: until then, the outer call holds the lock.
   */
  abstract lose(reason: LockLostReason, cause?: unknown): void;
  /** Calls back once when the lock is lost; returns a function that stops listening. */
  abstract onLost(callback: (error: LockLostError) => void): () => void;
  /** Whether the call waits for the release even if the lease is proven. */
  abstract readonly awaitRelease: boolean;
  /** Extends the lease, also after the release while nested calls are inside; by default, to the requested lease. */
  abstract extendBy(leaseMs?: number): Promise<void>;
  /** Throws the errors of `downgrade` that need no command. */
  abstract checkDowngrade(): void;
  abstract downgrade(): Promise<void>;
  /** Whether `key` is held as one permit of a semaphore, which nested calls use one at a time. */
  abstract isPermit(key: string): boolean;
  /** The number of calls, of all instances, that may hold `key` at the same time in this way; `Infinity` for readers. */
  abstract maxHoldersOf(key: string): number;
  /** Stops the hold in this process; the store keeps it for the process that adopts it. Called once, instead of `end`. */
  protected abstract giveAway(): TransferredHold;
  /** Ends the hold; returns null if the store is not asked. Called once. */
  protected abstract end(outcome: WorkOutcome | undefined): Ending | null;

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
    return this.#isReleased;
  }

  /** Whether the hold itself has ended, or is about to. */
  get isEnded(): boolean {
    return this.#isEnded;
  }

  /** Whether this is a nested lock inside `hold`, which cannot end before this lock. */
  isInside(_hold: Hold): boolean {
    return false;
  }

  async extend(leaseMs: number): Promise<void> {
    duration({ min: 1, max: MAX_LEASE_MS }).check(leaseMs, 'leaseMs');
    this.checkHeld('extending');
    await this.extendBy(leaseMs);
  }

  /** Refused: `withLock` or the decorated method releases this lock. */
  transfer(_options?: { leaseMs?: number }): Promise<string> {
    return Promise.reject(ofCallError(this));
  }

  /** `transfer` of the handle of this lock. */
  async transferHandle(options: { leaseMs?: number } = {}): Promise<string> {
    const { leaseMs } = checkTransferOptions(options);
    this.keeper.checkTransfer();
    this.checkHeld('transferring');
    // The adopting process has the whole lease for the adoption.
    await this.extendBy(leaseMs);
    this.checkHeld('transferring');
    return transferText(this.endTransferred());
  }

  /** Ends the hold here, as a release would, while the store keeps it. */
  endTransferred(): TransferredHold {
    this.#isReleased = true;
    this.#isEnded = true;
    this.tracker?.forget();
    return this.giveAway();
  }

  /** The caller releases it: if its work runs a job, that counts as done. */
  release(): Promise<boolean> {
    return this.releaseAfter('done');
  }

  /**
   * Releases the lock, and reports how the work under it ended. Never rejects.
   * @returns whether it was still held; false the second time
   */
  releaseAfter(outcome: WorkOutcome | undefined): Promise<boolean> {
    const wasReleased = this.#isReleased;
    const wasHeld = this.held;
    const ending = this.finish(outcome);
    if (!ending) return Promise.resolve(wasHeld);
    return new Promise((resolve) =>
      ending.onSettled((isConfirmed) =>
        // The answer of the store is newer than the last proof of the lease.
        resolve(!wasReleased && (isConfirmed || wasHeld) && !this.lost),
      ),
    );
  }

  /** The same for a caller that does not need to learn whether it was held; returns null if there is nothing to wait for. */
  finish(outcome: WorkOutcome | undefined): Ending | null {
    if (this.#isReleased) return this.#ending;
    this.#isReleased = true;
    this.#outcome = outcome;
    this.tracker?.forget();
    for (const slot of this.#slots ?? []) slot?.close();
    if (this.#nestedCalls === 0) this.#ending = this.endOnce();
    return this.#ending;
  }

  /** Ends a lost hold, even if it was not released or nested calls are inside. */
  endLost(): void {
    this.finish(undefined);
    if (!this.#isEnded) this.endOnce();
  }

  /** The slot in which nested calls on `key` take their turns. */
  slotOf(key: string): LocalSlot {
    this.#slots ??= [];
    return (this.#slots[this.keys.indexOf(key)] ??= new LocalSlot(this.#isReleased));
  }

  /** A nested call is inside: the hold does not end before `removeNestedCall`. */
  addNestedCall(): void {
    this.#nestedCalls += 1;
  }

  removeNestedCall(): void {
    this.#nestedCalls -= 1;
    if (this.#nestedCalls > 0 || !this.#isReleased || this.#isEnded) return;
    if (left) return void left.push(this);
    left = [this];
    try {
      for (const hold of left) if (!hold.#isEnded) hold.endOnce();
    } finally {
      left = null;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release();
  }

  protected checkNoWriter(): void {
    const hasWriter = this.#slots?.some((slot) => slot?.hasWriter);
    if (hasWriter) throw nestedWriterError(this);
  }

  protected checkHeld(doing: string): void {
    if (this.lost) throw this.lost;
    if (this.#isReleased) throw releasedError(this, doing);
  }

  /** Marks the hold as ended before anything is sent, so that a renewal in flight ignores its reply. */
  private endOnce(): Ending | null {
    this.#isEnded = true;
    return this.end(this.#outcome);
  }
}
