import { type Clock } from '../clock.js';
import { Hold, type WorkOutcome } from './hold.js';
import { type Lease, type Moment, longer, remainingOf } from './lease.js';
import { type LockLabel } from '../lock.events.js';
import { type HoldRef } from '../store/lock-store.js';
import { type LockLostError, type LockLostReason, type LockMode } from '../lock.errors.js';
import { LossSignal } from './loss.js';
import { lostError } from '../error-texts.js';

/** What a held lock needs from those who made it. */
export interface LockKeeper {
  readonly clock: Clock;
  /** Asks the store for a longer lease; resolves when it is proven. */
  extend(lock: StoreHold, leaseMs: number): Promise<void>;
  /** Makes it a read lock in the store. */
  downgrade(lock: StoreHold): Promise<void>;
  /** The lock was lost, and its holder was told. */
  onLost(lock: StoreHold, error: LockLostError): void;
  /** Gives the holds back, and tells whether the store confirmed that they were held; never rejects. */
  release(lock: StoreHold, outcome: WorkOutcome | undefined): Promise<boolean>;
}

/** What the store granted, and what the caller had asked for. */
export interface Grant {
  /** One per key, in the order in which the caller named them. */
  readonly holds: readonly HoldRef[];
  readonly attempt: string;
  readonly mode: LockMode;
  readonly owner: string;
  /** Who holds it, for people. */
  readonly holder: string;
  readonly leaseMs: number;
  readonly renew: boolean;
  readonly maxHoldMs: number;
  readonly holdAtLeastMs: number;
  /** 0: it is no semaphore. */
  readonly permits: number;
  readonly lease: Lease;
  /** Before the command that was granted was sent. */
  readonly sent: Moment;
  readonly waitedMs: number;
  readonly serverTimeMs: number;
  /** The scheduled job whose fire was claimed with it. */
  readonly job: string | undefined;
  readonly label: LockLabel;
  /** Whether a command of the attempt had no answer so far, and may still arrive. */
  readonly unanswered: () => boolean;
}

/** The handle of one acquisition: its proven lease, and how it ended. */
export class StoreHold extends Hold {
  /** Why the last renewal had no answer; a lease that runs out now was lost to an unreachable Redis. */
  unanswered: unknown;
  #mode: LockMode;
  #lease: Lease;
  #lost: LockLostError | null = null;
  #callbacks: Set<(error: LockLostError) => void> | null = null;
  /** Made when somebody asks for it: most calls never do, and it is the dearest object of a lock. */
  #signal: LossSignal | null = null;

  constructor(
    readonly grant: Grant,
    readonly keeper: LockKeeper,
  ) {
    super(grant.holds.map(({ key }) => key));
    this.#mode = grant.mode;
    this.#lease = grant.lease;
  }

  get mode(): LockMode {
    return this.#mode;
  }

  get owner(): string {
    return this.grant.owner;
  }

  get fencingTokens(): readonly number[] {
    return this.grant.holds.map(({ fencingToken }) => fencingToken);
  }

  get signal(): AbortSignal {
    this.#signal ??= new LossSignal();
    if (this.lost) this.#signal.abort(this.lost);
    return this.#signal.signal;
  }

  get provenMs(): number {
    return this.isOver ? 0 : remainingOf(this.#lease, this.keeper.clock);
  }

  /** A lease that ran out before its timer could fire counts as lost. */
  get lost(): LockLostError | null {
    if (this.deadline <= this.keeper.clock.now()) this.loseLease();
    return this.#lost;
  }

  /** Whether it is lost or given back: nothing more is to be done for it. */
  get isOver(): boolean {
    return this.#lost !== null || this.isEnded;
  }

  /** Until when the lease is proven, on the monotonic clock. */
  get deadline(): number {
    return this.#lease.deadline;
  }

  /** Takes a newer proof of the lease. */
  prove(lease: Lease): void {
    this.#lease = longer(this.#lease, lease);
    this.unanswered = undefined;
  }

  get isWatched(): boolean {
    return this.#signal !== null;
  }

  lose(reason: LockLostReason, cause?: unknown): void {
    if (!this.isOver) this.loseAtRelease(reason, cause);
  }

  /** The lease ran out. */
  loseLease(): void {
    this.lose(this.unanswered === undefined ? 'expired' : 'unreachable', this.unanswered);
  }

  /** The release found that the lease had ended before: tells it after the fact. */
  loseAtRelease(reason: LockLostReason, cause?: unknown): void {
    if (this.#lost) return;
    const error = lostError(this, reason, cause);
    this.#lost = error;
    this.tracker?.forget(this);
    this.#signal?.abort(error);
    for (const callback of this.#callbacks ?? []) callback(error);
    this.keeper.onLost(this, error);
  }

  isPermit(): boolean {
    return this.grant.permits > 0;
  }

  limitOf(): number {
    // Also after a downgrade: whoever came in since counts this hold.
    if (this.grant.mode === 'write') return 1;
    return this.isPermit() ? this.grant.permits : Infinity;
  }

  keeps(): boolean {
    return false;
  }

  onLost(callback: (error: LockLostError) => void): () => void {
    const callbacks = (this.#callbacks ??= new Set());
    callbacks.add(callback);
    return () => void callbacks.delete(callback);
  }

  checkDowngrade(): void {
    this.checkHeld('downgrading');
    this.checkNoWriter();
  }

  async downgrade(): Promise<void> {
    this.checkDowngrade();
    if (this.#mode === 'read' && this.grant.mode === 'read') return;
    // From the first command on it counts as a read lock: the store may have carried it out.
    this.#mode = 'read';
    await this.keeper.downgrade(this);
  }

  async extendBy(leaseMs: number): Promise<void> {
    await this.keeper.extend(this, leaseMs);
  }

  protected end(outcome: WorkOutcome | undefined): Promise<boolean> {
    return this.keeper.release(this, outcome);
  }
}
