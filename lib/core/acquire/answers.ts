import { busyError, waitTimeoutError } from '../busy-errors.js';
import { unansweredError } from '../error-texts.js';
import { type Lease, leaseOfPush, type Moment } from '../hold/lease.js';
import { type LockBusyError, type LockStoreError, type LockWaitTimeoutError } from '../lock.errors.js';
import { type AcquireReply, type WakeUp } from '../store/lock-store.js';
import { FIRST_ANSWER_MS } from '../timing.js';
import { type Attempt } from './attempt.js';
import { type LockRequest, nameOf, waitedMsOf } from './request.js';

/** The reply of a store for a busy lock. */
export type Busy = AcquireReply & { readonly outcome: 'busy' };

/** The grant that a store pushes to a waiter. */
export type PushedGrant = WakeUp & { readonly kind: 'granted' };

/** The replies and failures of an acquisition so far, of all of its attempts. */
export class Answers {
  /** How often in a row the votes of a quorum were split. */
  splits = 0;
  /** How many commands in a row have failed. */
  failures = 0;
  #lastError: unknown;
  /** Whether the lock was busy before the first answer: another call of this process held it. */
  readonly #wasBusyBefore: boolean;
  /** The last `busy` reply, and when its command was sent. A grant that is pushed later was made after that time. */
  #busy: { readonly sent: Moment; readonly reply: Busy } | null = null;

  constructor(wasBusyBefore: boolean) {
    this.#wasBusyBefore = wasBusyBefore;
  }

  /** Whether the lock is, or was, busy as far as this process knows. */
  get isKnownBusy(): boolean {
    return this.wasBusy || this.#wasBusyBefore;
  }

  /** Whether any reply was `busy`. */
  get wasBusy(): boolean {
    return this.#busy !== null;
  }

  onAnswer(): void {
    this.failures = 0;
  }

  onBusy(sent: Moment, reply: Busy): void {
    this.#busy = { sent, reply };
    this.splits = reply.isSplit ? this.splits + 1 : 0;
  }

  onFailure(error: unknown): void {
    this.#lastError = error;
    this.failures += 1;
  }

  /**
   * Returns the lease that a pushed grant proves; null if the attempt must ask the store instead. The lease of such a grant
   * is short, so it does not suffice if no renewal follows soon, or if the lock must outlast a crash (`holdAtLeastMs`). The
   * grant is for one key only. It counts only from the server that put the attempt into its queue, which another server may
   * have replaced. (In a cluster, servers have no names here; a grant of any node counts.)
   */
  leaseOfPushed(
    { keys, options }: LockRequest,
    { fencingToken, remainingMs, server }: PushedGrant,
    receivedAt: Moment,
  ): Lease | null {
    if (!this.#busy) return null;
    const { sent, reply } = this.#busy;
    const suffices = options.renew && options.holdAtLeastMs === 0 && keys.length === 1;
    const isNew = server === reply.server && fencingToken > (reply.lastToken ?? 0);
    return suffices && isNew ? leaseOfPush(remainingMs, sent, receivedAt) : null;
  }

  /**
   * The error of a call whose time is up now; `behind`: how many calls of its
   * process come before it.
   */
  limitError(
    request: LockRequest,
    now: number,
    { sentAt, id }: Attempt,
    behind: number,
  ): LockBusyError | LockWaitTimeoutError | LockStoreError {
    const name = nameOf(request);
    const waitedMs = waitedMsOf(request, now);
    if (this.failures > 0) return unansweredError(name, waitedMs, this.#lastError);
    const isSilent = sentAt !== null && now - sentAt >= FIRST_ANSWER_MS;
    // It may have been busy once, but nobody knows whether it still is.
    if (isSilent || !this.isKnownBusy) return unansweredError(name, waitedMs, undefined);
    const reply = this.#busy?.reply ?? { holder: undefined, ahead: 0 };
    const asker = { holder: request.holder, attempt: id };
    return request.options.waitMs === 0
      ? busyError(name, reply, asker)
      : waitTimeoutError(name, waitedMs, { ...reply, ahead: reply.ahead + behind }, asker);
  }
}
