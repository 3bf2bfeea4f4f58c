import { type LockRequest } from '../acquire/request.js';
import { type Clock } from '../clock.js';
import { lostError } from '../error-texts.js';
import { type LockLostError, type LockLostReason, type LockMode } from '../lock.errors.js';
import { type GrantedFire } from '../store/fires.js';
import { noteIn } from '../store/holder-text.js';
import { type HoldRef, type LostReply } from '../store/lock-store.js';
import { type ScheduledCall } from '../timer-queue.js';
import { type Ending } from './ending.js';
import { type Grant } from './grant.js';
import { type Handover } from './handover.js';
import { Hold, type HoldModule, type WorkOutcome } from './hold.js';
import { type Lease, longer, remainingOf } from './lease.js';
import { Loss, lossReasonOf } from './loss.js';
import { type TransferredHold } from './transfer-text.js';
import { type Carried } from './wheel.js';

/** The part of `Holds` that a hold uses. */
export interface HoldKeeper extends HoldModule {
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
  /** Releases it in the store; returns null if another call of this process gets it instead. */
  end(hold: StoreHold, outcome: WorkOutcome | undefined): Ending | null;
}

/** The hold of one acquisition: its request, its proven lease, and how it was lost. */
export class StoreHold extends Hold implements Lease, Carried<StoreHold> {
  /** The error of the last renewal, if it had no answer. If the lease runs out now, Redis was unreachable. */
  renewError: unknown = undefined;
  bucket: Carried<StoreHold>['bucket'] = null;
  /** The calls of this process that had it before; null for most holds. */
  handover: Handover<StoreHold> | null = null;
  /** The hold of the call to which it was handed, and the end of this one, which waits for a proof. */
  heir: StoreHold | null = null;
  ending: Ending | null = null;
  /** The caller has extended it, or tried to. */
  isExtended = false;
  /** Whether the watchdog renews it when its time on the wheel comes; set when it is put there. */
  awaitsRenewal!: boolean;
  /** The timer of `maxHoldMs`. */
  maxHoldEnd: ScheduledCall | null = null;
  readonly request: LockRequest;
  readonly attempt: string;
  readonly fire: GrantedFire | undefined;
  /** When the granted command was sent, in whole milliseconds; for a pushed grant, when it arrived. */
  readonly sentAt: number;
  /** Until when the lease is proven, on the monotonic clock. */
  deadline: number;
  wallDeadline: number;
  #mode: LockMode;
  /** As the store has them. */
  readonly #tokens: number | readonly number[];
  readonly handedOn: number;
  /** Whether the store may have the text of another call of this process. */
  readonly hasNewHolder: boolean;
  /** For how much longer than the proven lease the store may keep it. (V8 allocates no object for a whole number.) */
  #keptPastMs = 0;
  /** Created late: most holds are never lost, and their signals are never read. */
  #loss: Loss | null = null;
  readonly #unanswered: (() => boolean) | null;

  constructor(
    grant: Grant,
    readonly keeper: HoldKeeper,
  ) {
    const { request, tokens, attempt, handedOn, hasNewHolder, fire, lease, sent, unanswered } = grant;
    const { keys, callerKeys = keys } = request;
    const isOne = callerKeys.length === 1;
    super(isOne ? callerKeys[0]! : callerKeys);
    this.request = request;
    this.attempt = attempt;
    this.fire = fire;
    this.sentAt = Math.floor(sent.at);
    this.deadline = lease.deadline;
    this.wallDeadline = lease.wallDeadline;
    this.#mode = grant.presentMode ?? request.options.mode;
    this.#tokens = isOne ? tokens[0]! : tokens;
    this.handedOn = handedOn;
    this.hasNewHolder = hasNewHolder;
    this.#unanswered = unanswered;
  }

  get mode(): LockMode {
    return this.#mode;
  }

  get owner(): string {
    return this.request.options.owner ?? this.attempt;
  }

  get fencingTokens(): readonly number[] {
    return typeof this.#tokens === 'number' ? [this.#tokens + this.handedOn] : this.#tokens;
  }

  /** As the store has them: the callers to which it was handed on have later ones. */
  get storedTokens(): readonly number[] {
    return typeof this.#tokens === 'number' ? [this.#tokens] : this.#tokens;
  }

  /** The requested lease. */
  get leaseMs(): number {
    return this.request.options.leaseMs;
  }

  /** The hold as the store has it: one per key, in the order of the keys. */
  get refs(): readonly HoldRef[] {
    const { attempt, storedTokens } = this;
    return this.keys.map((key, i) => ({ key, attempt, fencingToken: storedTokens[i]! }));
  }

  /** Why it is gone, according to the reply of the store for a key with this token. */
  lossReason(token: number, reply: Pick<LostReply, 'lastToken' | 'revoked'>): LockLostReason {
    return lossReasonOf(token, this.#mode !== this.#grantedMode, reply);
  }

  /** Whether the store has it as granted, except for renewals, and has answered the last one. */
  get isAsGranted(): boolean {
    const isAnswered = this.renewError === undefined && !this.isUnanswered;
    return this.#mode === this.#grantedMode && !this.isExtended && isAnswered && !this.lost;
  }

  /** The present hold: that of the call to which it was handed on, or this one. */
  get present(): StoreHold {
    // oxlint-disable-next-line typescript/no-this-alias, unicorn/no-this-assignment -- the first of a chain
    let hold: StoreHold = this;
    while (hold.heir) hold = hold.heir;
    return hold;
  }

  /** Whether a command of the attempt has no answer yet, and may still reach the store. */
  get isUnanswered(): boolean {
    return this.#unanswered?.() ?? false;
  }

  get signal(): AbortSignal {
    this.checkLease();
    return this.lossToTell.signal;
  }

  get hasSignal(): boolean {
    return this.#loss?.hasSignal === true;
  }

  get provenMs(): number {
    return this.isOver ? 0 : remainingOf(this, this.keeper.clock);
  }

  get lost(): LockLostError | null {
    this.checkLease();
    return this.#loss?.error ?? null;
  }

  /** Whether it was lost or has ended: it needs no further work. */
  get isOver(): boolean {
    return this.isEnded || (this.#loss?.error ?? null) !== null;
  }

  /**
   * Until when the store may keep it, on the monotonic clock: the store may have executed a renewal without an answer, and a
   * release is due until then.
   */
  get keptUntil(): number {
    return this.deadline + this.#keptPastMs;
  }

  /** A renewal of this length is being sent. */
  onRenewing(leaseMs: number): void {
    this.keepUntil(this.keeper.clock.now() + leaseMs);
  }

  /** How long it has been held so far, counted from `sentAt`. */
  get heldMs(): number {
    return Math.round(this.keeper.clock.now() - this.sentAt);
  }

  /** The fields of all events of this hold. */
  get event() {
    const { key, keys, mode, fencingToken, attempt, request } = this;
    return { key, keys, mode, fencingToken, attempt, ...request.label, note: noteIn(request.holder) };
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

  /** The store has reported that it is gone: it is also lost for the calls that have handed it on. */
  loseInStore(reason: LockLostReason): void {
    this.loseAtEnd(reason);
    this.handover?.lose(reason);
  }

  /** The proof that followed its end has found that it was gone. The present holder emits the event. */
  loseAfterEnd(reason: LockLostReason): void {
    if (!this.#loss?.error) this.lossToTell.announce(lostError(this, reason));
  }

  onLost(callback: (error: LockLostError) => void): () => void {
    return this.lossToTell.onLost(callback);
  }

  get awaitRelease(): boolean {
    return this.request.options.awaitRelease;
  }

  isPermit(): boolean {
    const { permits, take } = this.request.options;
    return permits > 0 || take > 1;
  }

  maxHoldersOf(): number {
    // Also after a downgrade: other holders were admitted by counting this hold as granted.
    if (this.#grantedMode === 'write') return 1;
    return this.request.options.permits || Infinity;
  }

  checkDowngrade(): void {
    this.checkHeld('downgrading');
    this.checkNoWriter();
  }

  async downgrade(): Promise<void> {
    this.checkDowngrade();
    if (this.#mode === 'read' && this.#grantedMode === 'read') return;
    // It counts as a read lock from the first command on, because the store may have executed it.
    this.#mode = 'read';
    await this.keeper.downgrade(this);
  }

  async extendBy(leaseMs = this.leaseMs): Promise<void> {
    await this.keeper.extend(this, leaseMs);
  }

  protected giveAway(): TransferredHold {
    return this.keeper.giveAway(this);
  }

  protected end(outcome: WorkOutcome | undefined): Ending | null {
    return this.keeper.end(this, outcome);
  }

  get #grantedMode(): LockMode {
    return this.request.options.mode;
  }

  keepUntil(at: number): void {
    this.#keptPastMs = Math.max(this.#keptPastMs, Math.ceil(at - this.deadline));
  }

  // Not a `#` name: each object would have a field for the set of private methods.
  private get lossToTell(): Loss {
    return (this.#loss ??= new Loss());
  }

  /** A lease that ends before its timer fires counts as lost. */
  private checkLease(): void {
    if (!this.isOver && this.deadline <= this.keeper.clock.now()) this.expire();
  }
}
