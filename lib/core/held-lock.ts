import { type Clock } from './clock.js';
import { type Lease, type Moment, longer, remainingOf } from './lease.js';
import { LockLostError, type LockLostReason, type LockMode, LockNotHeldError } from './lock.errors.js';
import { checkDuration, MAX_LEASE_MS } from './lock-options.js';
import { type HoldRef } from './lock-store.js';
import { type Lock } from './lock.js';

/** What a held lock needs from those who made it. */
export interface LockKeeper {
  readonly clock: Clock;
  /** Asks the store for a longer lease; resolves when it is proven. */
  extend(lock: HeldLock, leaseMs: number): Promise<void>;
  /** Gives the hold back; never rejects. */
  release(lock: HeldLock): Promise<void>;
}

/** What the store granted, and what the caller had asked for. */
export interface Grant extends HoldRef {
  readonly mode: LockMode;
  readonly owner: string;
  readonly leaseMs: number;
  readonly renew: boolean;
  readonly maxHoldMs: number;
  readonly holdAtLeastMs: number;
  readonly lease: Lease;
  /** Before the command that was granted was sent. */
  readonly sent: Moment;
}

/** The handle of one held lock: its proven lease, and how it ended. */
export class HeldLock implements Lock {
  readonly grant: Grant;
  /** Whose lock this is: two modules may each hold a lock of one key, in two places. */
  readonly keeper: LockKeeper;
  #lease: Lease;
  #lost: LockLostError | null = null;
  #released: Promise<void> | null = null;
  /** Made when somebody asks for it: most calls never do, and it is the dearest object of a lock. */
  #controller: AbortController | null = null;

  constructor(grant: Grant, keeper: LockKeeper) {
    this.grant = grant;
    this.keeper = keeper;
    this.#lease = grant.lease;
  }

  get key(): string {
    return this.grant.key;
  }

  get keys(): readonly string[] {
    return [this.grant.key];
  }

  get mode(): LockMode {
    return this.grant.mode;
  }

  get owner(): string {
    return this.grant.owner;
  }

  get fencingToken(): number {
    return this.grant.fencingToken;
  }

  get signal(): AbortSignal {
    this.#controller ??= new AbortController();
    if (this.#lost) this.#controller.abort(this.#lost);
    return this.#controller.signal;
  }

  get held(): boolean {
    return this.remainingMs > 0;
  }

  get remainingMs(): number {
    return this.isOver ? 0 : remainingOf(this.#lease, this.keeper.clock);
  }

  /** How the lock was lost, if it was; a lease that ran out before its timer could fire counts as lost. */
  get lost(): LockLostError | null {
    if (!this.isOver && this.deadline <= this.keeper.clock.now()) this.lose('expired');
    return this.#lost;
  }

  get isReleased(): boolean {
    return this.#released !== null;
  }

  /** Whether it was released or lost: nothing more is to be done for it. */
  get isOver(): boolean {
    return this.#lost !== null || this.#released !== null;
  }

  /** Until when the lease is proven, on the monotonic clock. */
  get deadline(): number {
    return this.#lease.deadline;
  }

  /** Takes a newer proof of the lease. */
  prove(lease: Lease): void {
    this.#lease = longer(this.#lease, lease);
  }

  /** Tells the holder that the lock is lost; the first reason stays. */
  lose(reason: LockLostReason, cause?: unknown): void {
    if (this.isOver) return;
    this.#lost = lostError(this, reason, cause);
    this.#controller?.abort(this.#lost);
  }

  async extend(leaseMs: number): Promise<void> {
    checkDuration(leaseMs, 'leaseMs', { min: 1, max: MAX_LEASE_MS });
    if (this.#lost) throw this.#lost;
    if (this.#released) {
      throw new LockNotHeldError(
        `The lock "${this.key}" was released; acquire it again instead of extending it.`,
        this,
      );
    }
    await this.keeper.extend(this, leaseMs);
  }

  release(): Promise<void> {
    if (!this.#released) {
      let done!: () => void;
      // Set before the keeper runs, so that a renewal in flight or a second release finds the lock over.
      this.#released = new Promise((resolve) => (done = resolve));
      void this.keeper.release(this).then(done, done);
    }
    return this.#released;
  }

  /** The release found that the lease had ended before: tells it after the fact. */
  loseAtRelease(reason: LockLostReason): void {
    if (this.#lost) return;
    this.#lost = lostError(this, reason);
    this.#controller?.abort(this.#lost);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.release();
  }
}

const WHY: Record<LockLostReason, string> = {
  expired: 'its lease ended before it was renewed (was the process paused, or the key deleted in Redis?)',
  taken: 'somebody else was granted it since',
  unreachable: 'Redis could not be asked until the lease was over',
  'max-hold': 'it was held for longer than maxHoldMs',
  'released-by-operator': 'it was released by force',
};

function lostError(lock: Lock, reason: LockLostReason, cause?: unknown): LockLostError {
  const text =
    `The lock "${lock.key}" (${lock.mode}, fencing token ${lock.fencingToken}) was lost: ${WHY[reason]}. ` +
    'Stop the work on `lock.signal`, and let the protected resource refuse older fencing tokens.';
  return new LockLostError(text, { key: lock.key, mode: lock.mode, reason, ...(cause === undefined ? {} : { cause }) });
}
