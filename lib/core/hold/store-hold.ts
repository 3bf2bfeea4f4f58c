import { type Clock } from '../clock.js';
import { lostError } from '../error-texts.js';
import { type LockLostError, type LockLostReason, type LockMode } from '../lock.errors.js';
import { type LockLabel } from '../lock.events.js';
import { type HoldRef } from '../store/lock-store.js';
import { Hold, type WorkOutcome } from './hold.js';
import { type Lease, type Moment, longer, remainingOf } from './lease.js';
import { Loss } from './loss.js';

/** The part of `Holds` that a hold uses. */
export interface HoldKeeper {
  readonly clock: Clock;
  /**
   * Asks the store for a longer lease; resolves when it is proven.
   * @throws LockLostError, LockNotHeldError, LockStoreError
   */
  extend(hold: StoreHold, leaseMs: number): Promise<void>;
  /**
   * Makes it a read lock in the store.
   * @throws LockLostError, LockStoreError
   */
  downgrade(hold: StoreHold): Promise<void>;
  /** The lock was lost, and its signal and callbacks have been called. */
  onLost(hold: StoreHold, error: LockLostError): void;
  /** Releases it in the store; returns whether the store confirmed that it was held. */
  end(hold: StoreHold, outcome: WorkOutcome | undefined): Promise<boolean>;
}

/** The grant of the store, with the options that were requested. */
export interface Grant {
  /** One per key, in the order in which the caller named them. */
  readonly holds: readonly HoldRef[];
  readonly attempt: string;
  readonly mode: LockMode;
  readonly owner: string;
  /** The holder, for people to read. */
  readonly holder: string;
  readonly leaseMs: number;
  readonly renew: boolean;
  readonly maxHoldMs: number;
  readonly holdAtLeastMs: number;
  /** Of a semaphore; 0: any number of readers. */
  readonly permits: number;
  readonly lease: Lease;
  /** When the granted command was sent; when the grant arrived, if it was pushed. */
  readonly sent: Moment;
  readonly waitedMs: number;
  readonly serverTimeMs: number;
  /** The scheduled job whose fire was claimed with it. */
  readonly job: string | undefined;
  readonly label: LockLabel;
  /** Whether a command of the attempt has had no answer so far, and may still arrive. */
  readonly unanswered: () => boolean;
}

/** The hold of one acquisition: its proven lease, and how it was lost. */
export class StoreHold extends Hold {
  /** Why the last renewal had no answer. If the lease runs out now, Redis was unreachable. */
  renewError: unknown;
  #mode: LockMode;
  #lease: Lease;
  #askedUntil = -Infinity;
  readonly #loss = new Loss();

  constructor(
    readonly grant: Grant,
    readonly keeper: HoldKeeper,
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
    this.#checkLease();
    return this.#loss.signal;
  }

  get hasSignal(): boolean {
    return this.#loss.hasSignal;
  }

  get provenMs(): number {
    return this.isOver ? 0 : remainingOf(this.#lease, this.keeper.clock);
  }

  get lost(): LockLostError | null {
    this.#checkLease();
    return this.#loss.error;
  }

  /** Whether it was lost or has ended: nothing more is done for it. */
  get isOver(): boolean {
    return this.#loss.error !== null || this.isEnded;
  }

  /** Until when the lease is proven, on the monotonic clock. */
  get deadline(): number {
    return this.#lease.deadline;
  }

  /**
   * Until when the store may keep it, on the monotonic clock: a renewal without an answer may have been carried out, and a
   * release is due until then.
   */
  get keptUntil(): number {
    return Math.max(this.deadline, this.#askedUntil);
  }

  /** A renewal of this length is sent now. */
  onRenewing(leaseMs: number): void {
    this.#askedUntil = Math.max(this.#askedUntil, this.keeper.clock.now() + leaseMs);
  }

  /** How long it has been held so far, counted from `grant.sent`. */
  get heldMs(): number {
    return Math.round(this.keeper.clock.now() - this.grant.sent.at);
  }

  /** The fields of all events of this hold. */
  get event() {
    const { key, mode, fencingToken, grant } = this;
    return { key, mode, fencingToken, attempt: grant.attempt, ...grant.label };
  }

  /** Takes a newer proof of the lease. */
  prove(lease: Lease): void {
    this.#lease = longer(this.#lease, lease);
    this.renewError = undefined;
  }

  lose(reason: LockLostReason, cause?: unknown): void {
    if (!this.isOver) this.loseAtEnd(reason, cause);
  }

  /** The lease ran out. */
  expire(): void {
    this.lose(this.renewError === undefined ? 'expired' : 'unreachable', this.renewError);
  }

  /** Marks the lock as lost even after the end: its release found that it had been lost before. */
  loseAtEnd(reason: LockLostReason, cause?: unknown): void {
    if (this.#loss.error) return;
    const error = lostError(this, reason, cause);
    this.tracker?.forget(this);
    this.#loss.announce(error);
    this.keeper.onLost(this, error);
  }

  onLost(callback: (error: LockLostError) => void): () => void {
    return this.#loss.onLost(callback);
  }

  isPermit(): boolean {
    return this.grant.permits > 0;
  }

  maxHoldersOf(): number {
    // Also after a downgrade: other holders came in by counting this hold as it was granted.
    if (this.grant.mode === 'write') return 1;
    return this.isPermit() ? this.grant.permits : Infinity;
  }

  isInside(): boolean {
    return false;
  }

  checkDowngrade(): void {
    this.checkHeld('downgrading');
    this.checkNoWriter();
  }

  async downgrade(): Promise<void> {
    this.checkDowngrade();
    if (this.#mode === 'read' && this.grant.mode === 'read') return;
    // It counts as a read lock from the first command on: the store may have carried that out.
    this.#mode = 'read';
    await this.keeper.downgrade(this);
  }

  async extendBy(leaseMs: number): Promise<void> {
    await this.keeper.extend(this, leaseMs);
  }

  protected end(outcome: WorkOutcome | undefined): Promise<boolean> {
    return this.keeper.end(this, outcome);
  }

  /** A lease that ran out before its timer could fire counts as lost. */
  #checkLease(): void {
    if (this.deadline <= this.keeper.clock.now()) this.expire();
  }
}
