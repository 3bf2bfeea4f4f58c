import { type Clock } from '../clock.js';
import { lostError } from '../error-texts.js';
import { type LockLostError, type LockLostReason, type LockMode } from '../lock.errors.js';
import { noteIn } from '../store/holder-text.js';
import { type HoldRef, type LostReply } from '../store/lock-store.js';
import { type Ending } from './ending.js';
import { type Grant, type HoldTerms } from './hold-terms.js';
import { Hold, type WorkOutcome } from './hold.js';
import { type Lease, longer, remainingOf } from './lease.js';
import { Loss, lossReasonOf } from './loss.js';
import { type TransferredHold } from './transfer-text.js';
import { type Carried } from './wheel.js';

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
  /** Stops it here, for the process that adopts it. */
  giveAway(hold: StoreHold): TransferredHold;
  /** Releases it in the store; returns null if another call of this process has got it instead. */
  end(hold: StoreHold, outcome: WorkOutcome | undefined): Ending | null;
}

/**
 * The hold of one acquisition: its proven lease, and how it was lost. There may be thousands of holds, so each keeps only
 * what it needs, and what they have in common (`terms`) is one object.
 */
export class StoreHold extends Hold implements Lease, Carried<StoreHold> {
  /** Why the last renewal had no answer. If the lease runs out now, Redis was unreachable. */
  renewError: unknown = undefined;
  bucket: Carried<StoreHold>['bucket'] = null;
  place = 0;
  /** Calls of this process that had it before, since its last proof; null for most holds. */
  earlier: StoreHold[] | null = null;
  /** Whether the watchdog renews it when its time on the wheel has come. */
  awaitsRenewal = false;
  readonly attempt: string;
  /** When the granted command was sent, in whole milliseconds; when the grant arrived, if it was pushed. */
  readonly sentAt: number;
  /** Until when the lease is proven, on the monotonic clock. */
  deadline: number;
  wallDeadline: number;
  #mode: LockMode;
  /** As the store knows them. */
  readonly #tokens: number | readonly number[];
  readonly handedOn: number;
  /**
   * For how much longer than the proven lease the store may keep it; 0 only while no renewal was sent since the grant. (Whole
   * numbers take no memory of their own.)
   */
  #keptPastMs = 0;
  /** Most holds are never lost, and nobody asks for their signals. */
  #loss: Loss | null = null;
  readonly #unanswered: (() => boolean) | null;

  constructor(
    grant: Grant,
    readonly terms: HoldTerms,
    readonly keeper: HoldKeeper,
  ) {
    const { holds, attempt, handedOn, lease, sent, unanswered } = grant;
    super(holds.length === 1 ? holds[0]!.key : holds.map(({ key }) => key));
    this.attempt = attempt;
    this.sentAt = Math.floor(sent.at);
    this.deadline = lease.deadline;
    this.wallDeadline = lease.wallDeadline;
    this.#mode = grant.presentMode ?? terms.mode;
    this.#tokens = holds.length === 1 ? holds[0]!.fencingToken : holds.map(({ fencingToken }) => fencingToken);
    this.handedOn = handedOn;
    // Once all is answered, nothing more is sent for the attempt.
    this.#unanswered = unanswered() ? unanswered : null;
  }

  get mode(): LockMode {
    return this.#mode;
  }

  get owner(): string {
    return this.terms.owner ?? this.attempt;
  }

  get fencingTokens(): readonly number[] {
    return typeof this.#tokens === 'number' ? [this.#tokens + this.handedOn] : this.#tokens;
  }

  /** The hold as the store knows it: one per key, in the order of the keys. */
  get refs(): readonly HoldRef[] {
    const { attempt } = this;
    const tokens = this.#tokens;
    if (typeof tokens === 'number') return [{ key: this.key, attempt, fencingToken: tokens }];
    return this.keys.map((key, i) => ({ key, attempt, fencingToken: tokens[i]! }));
  }

  /** Why it is gone, according to the reply of the store for a key with this token. */
  lossReason(token: number, reply: Pick<LostReply, 'lastToken' | 'revoked'>): LockLostReason {
    return lossReasonOf(token, this.#mode !== this.terms.mode, reply);
  }

  /** Whether the store has it on the terms of the grant, and no other command about it is under way. */
  get isAsGranted(): boolean {
    return this.#mode === this.terms.mode && this.#keptPastMs === 0 && !this.lost && !this.isUnanswered;
  }

  /** Whether a command of the attempt has had no answer so far, and may still arrive. */
  get isUnanswered(): boolean {
    return this.#unanswered?.() ?? false;
  }

  get signal(): AbortSignal {
    this.checkLease();
    return this.lossToTell.signal;
  }

  get hasSignal(): boolean {
    return this.#loss?.hasSignal ?? false;
  }

  get provenMs(): number {
    return this.isOver ? 0 : remainingOf(this, this.keeper.clock);
  }

  get lost(): LockLostError | null {
    this.checkLease();
    return this.#loss?.error ?? null;
  }

  /** Whether it was lost or has ended: nothing more is done for it. */
  get isOver(): boolean {
    return this.isEnded || (this.#loss?.error ?? null) !== null;
  }

  /**
   * Until when the store may keep it, on the monotonic clock: a renewal without an answer may have been carried out, and a
   * release is due until then.
   */
  get keptUntil(): number {
    return this.deadline + this.#keptPastMs;
  }

  /** A renewal of this length is sent now. */
  onRenewing(leaseMs: number): void {
    this.keepUntil(this.keeper.clock.now() + leaseMs);
  }

  /** How long it has been held so far, counted from `sentAt`. */
  get heldMs(): number {
    return Math.round(this.keeper.clock.now() - this.sentAt);
  }

  /** The fields of all events of this hold. */
  get event() {
    const { key, keys, mode, fencingToken, attempt, terms } = this;
    return { key, keys, mode, fencingToken, attempt, ...terms.label, note: noteIn(terms.holder) };
  }

  /** Takes a newer proof of the lease. */
  prove(lease: Lease): void {
    const { keptUntil } = this;
    const { deadline, wallDeadline } = longer(this, lease);
    this.deadline = deadline;
    this.wallDeadline = wallDeadline;
    this.#keptPastMs = 0;
    this.keepUntil(keptUntil);
    this.renewError = undefined;
    this.earlier = null;
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
    if (this.#loss?.error) return;
    const error = lostError(this, reason, cause);
    this.tracker?.forget();
    this.lossToTell.announce(error);
    this.keeper.onLost(this, error);
  }

  onLost(callback: (error: LockLostError) => void): () => void {
    return this.lossToTell.onLost(callback);
  }

  get awaitRelease(): boolean {
    return this.terms.awaitRelease;
  }

  isPermit(): boolean {
    return this.terms.permits > 0 || this.terms.take > 1;
  }

  maxHoldersOf(): number {
    // Also after a downgrade: other holders came in by counting this hold as it was granted.
    if (this.terms.mode === 'write') return 1;
    return this.terms.permits || Infinity;
  }

  checkDowngrade(): void {
    this.checkHeld('downgrading');
    this.checkNoWriter();
  }

  async downgrade(): Promise<void> {
    this.checkDowngrade();
    if (this.#mode === 'read' && this.terms.mode === 'read') return;
    // It counts as a read lock from the first command on: the store may have carried that out.
    this.#mode = 'read';
    await this.keeper.downgrade(this);
  }

  async extendBy(leaseMs = this.terms.leaseMs): Promise<void> {
    await this.keeper.extend(this, leaseMs);
  }

  protected giveAway(): TransferredHold {
    return this.keeper.giveAway(this);
  }

  protected end(outcome: WorkOutcome | undefined): Ending | null {
    return this.keeper.end(this, outcome);
  }

  private keepUntil(at: number): void {
    this.#keptPastMs = Math.max(this.#keptPastMs, Math.ceil(at - this.deadline), 1);
  }

  // Not a private name: each object would have a field for all of those.
  private get lossToTell(): Loss {
    return (this.#loss ??= new Loss());
  }

  /** A lease that ran out before its timer could fire counts as lost. */
  private checkLease(): void {
    if (!this.isOver && this.deadline <= this.keeper.clock.now()) this.expire();
  }
}
