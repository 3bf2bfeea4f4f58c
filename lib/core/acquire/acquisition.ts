import { busyError, exceededPermitsError, queueFullError, waitTimeoutError } from '../busy-errors.js';
import { claimedError, unansweredError, upgradeError } from '../error-texts.js';
import { type Lease, leaseFrom, leaseOfPush, type Moment, moment, remainingAt } from '../hold/lease.js';
import { type Grant } from '../hold/grant.js';
import { type LockError, LockStoreError, mayBeCarriedOut } from '../lock.errors.js';
import { type AcquireReply, type WakeUp } from '../store/lock-store.js';
import {
  busyRetryMs,
  commandTimeoutMs,
  failureRetryMs,
  FIRST_ANSWER_MS,
  leastProvenOfPushMs,
  splitRetryMs,
} from '../timing.js';
import {
  type AcquireCall,
  type AcquireContext,
  type CallQueue,
  type WaitingPlace,
  type WokenAcquisition,
} from './acquire-call.js';
import { acquireRequestOf, holdAtLeastMsOf, nameOf, requestedLeaseMs, waitedMsOf } from './request.js';

/** The reply of a store for a busy lock. */
type Busy = AcquireReply & { readonly outcome: 'busy' };

/** The grant that a store pushes to a waiter. */
type PushedGrant = WakeUp & { readonly kind: 'granted' };

/** The part of a grant that comes from the reply of the store. */
type StoreGrant = Pick<Grant, 'lease' | 'sent' | 'serverTimeMs'> & { readonly fireMs?: number | undefined };

/**
 * `asking`: a command is under way; its answer leads to any state. `waiting`: a wake-up or the end of a pause leads to
 * `asking`, a pushed grant to `granted`. In both, an abort, a shutdown or the call's time limit leads to `cancelled`.
 */
type State = 'asking' | 'waiting' | 'granted' | 'cancelled';

/**
 * Acquires a lock for one call, from the first command to the outcome: it asks, waits, and asks again. The first outcome
 * counts. A later grant is given back to the store. When the call is cancelled while other calls of its process wait for
 * the same lock, the acquisition keeps its place in the queue of the store and continues for the first of these calls.
 */
export class Acquisition implements WaitingPlace, WokenAcquisition {
  #state: State = 'waiting';
  /** The id of the present attempt. When the store has used it up, `#beginAttempt` sets it, and the flags of the attempt. */
  #attempt = '';
  /** When the command under way was sent; null if there is none: one command is under way at a time. */
  #sentAt: number | null = null;
  /** A call that was cancelled has asked with the attempt, so the store may have its name. */
  #isInherited!: boolean;
  /** A wake-up came while an answer was awaited, so the answer may be out of date. */
  #isWoken!: boolean;
  /** A command of the attempt had no answer, so the store may still execute it, however late. */
  #isUnanswered!: boolean;
  /** An operator revoked what the attempt was granted. The message may come before the reply that grants it. */
  #isRevoked!: boolean;
  /** A quorum gave some grants of the attempt back: the attempt keeps its places in the queues, but can no longer be granted. */
  #isSpent!: boolean;
  #cancelPause: (() => void) | undefined;
  /** The last `busy` reply, and when its command was sent. A grant that is pushed later was made after that time. */
  #busy: { readonly sent: Moment; readonly reply: Busy } | null = null;
  /** The number of split votes of a quorum in a row. */
  #splits = 0;
  /** The number of failed commands in a row, and the last error. */
  #failures = 0;
  #lastError: unknown;

  constructor(
    private readonly context: AcquireContext,
    private call: AcquireCall,
    /** The calls of the process for this key; null: the call asks for itself. */
    private readonly queue: CallQueue | null,
    /** Whether the lock was busy before the first answer: another call of this process had it. */
    wasBusy = false,
  ) {
    const now = moment(context.clock);
    this.#beginAttempt();
    call.waitIn(this, wasBusy, now.at);
    this.#send(now);
  }

  onWakeUp(wakeUp: WakeUp): void {
    if (this.#hasEnded) return;
    if (wakeUp.kind === 'revoked') this.#isRevoked = true;
    else if (wakeUp.kind === 'granted' && this.#onPushed(wakeUp)) return;
    else if (this.#state === 'asking') this.#isWoken = true;
    else this.#ask();
  }

  isAnswerAwaited(): boolean {
    return this.#state === 'asking';
  }

  onLimit(call: AcquireCall): void {
    const error = this.limitError(call);
    call.tellTimedOut(error);
    // A listener may have cancelled the call: then this acquisition continues for another one.
    if (this.call === call) this.cancel(call, error);
  }

  /** Returns the error of a call whose time limit has passed: this one, or one that waits behind it and `behind` others of its process. */
  limitError({ request, isBusy }: AcquireCall, behind = 0): LockError {
    const [sentAt, id] = [this.#sentAt, this.#attempt];
    const now = this.context.clock.now();
    const name = nameOf(request);
    const waitedMs = waitedMsOf(request, now);
    if (this.#failures > 0) return unansweredError(name, waitedMs, this.#lastError);
    const isSilent = sentAt !== null && now - sentAt >= FIRST_ANSWER_MS;
    // The lock was busy once, but may be free by now.
    if (isSilent || !(this.#busy || isBusy)) return unansweredError(name, waitedMs, undefined);
    const reply = this.#busy?.reply ?? { holder: undefined, ahead: 0 };
    const asker = { holder: request.holder, attempt: id };
    return request.options.waitMs === 0
      ? busyError(name, reply, asker)
      : waitTimeoutError(name, waitedMs, { ...reply, ahead: reply.ahead + behind }, asker);
  }

  close(error: unknown): void {
    this.cancel(this.call, error);
  }

  cancel(call: AcquireCall, error: unknown): void {
    if (this.#hasEnded) return;
    const successor = this.queue?.successorOf(call);
    if (!successor) return this.#fail(error);
    this.call = successor;
    this.#isInherited = true;
    successor.place = this;
    call.fail(error);
  }

  #fail(error: unknown, hasPlace = this.#busy !== null && this.call.request.options.waitMs > 0): void {
    this.#end('cancelled');
    const mayArrive = this.#isUnanswered || (this.#sentAt !== null && !this.context.store.withdraw?.(this.#attempt));
    // Without a place in a queue, a busy attempt leaves nothing behind.
    if (hasPlace || mayArrive) this.#giveBack();
    this.call.fail(error);
    this.queue?.onFailed(this.call);
  }

  /** Asks again. */
  #ask(): void {
    this.call.keepContext();
    this.#cancelPause?.();
    if (this.#isSpent) this.#replaceAttempt();
    this.#send();
  }

  #send(sent = moment(this.context.clock)): void {
    this.#state = 'asking';
    this.#sentAt = sent.at;
    this.#isWoken = false;
    const attempt = this.#attempt;
    const { request, hasWaited } = this.call;
    const timeoutMs = commandTimeoutMs(request.options.leaseMs);
    const onLate = (reply: AcquireReply): void => this.#giveBackLate(reply, attempt);
    let answer: Promise<AcquireReply>;
    try {
      answer = this.context.store.acquire(acquireRequestOf(request, attempt, hasWaited), timeoutMs, onLate);
    } catch (error) {
      // In violation of the contract of stores.
      answer = Promise.reject(error);
    }
    void answer.then(
      (reply) => this.#onReply(sent, reply),
      (error: unknown) => {
        this.#onAnswer(mayBeCarriedOut(error));
        if (!this.#hasEnded) this.#onFailure(error);
      },
    );
  }

  #onReply(sent: Moment, reply: AcquireReply): void {
    this.#onAnswer('unanswered' in reply && reply.unanswered === true);
    // The attempt was given back when the call ended. That release may have overtaken the command, so it is repeated.
    if (this.#hasEnded) return this.#giveBackLate(reply);
    if (reply.outcome === 'given-back') {
      if (reply.unanswered) this.#giveBack();
      this.#replaceAttempt();
      return this.#onFailure(reply.cause);
    }
    this.#failures = 0;
    const name = nameOf(this.call.request);
    if (reply.outcome === 'granted') {
      if (this.#isRevoked) return this.#askWithNewAttempt();
      // A late reply proves nothing: another command renews the lease, or starts over.
      const { fencingTokens, remainingMs, serverTimeMs, fireMs } = reply;
      const granted = { lease: leaseFrom(sent, remainingMs), sent, serverTimeMs, fireMs };
      if (!this.#grant(fencingTokens, granted)) this.#ask();
    } else if (reply.outcome === 'busy') {
      this.#onBusy(sent, reply);
    } else if (reply.reason === 'released') {
      // Our release overtook the command, or (very rarely) the store mistakes the attempt for another, released one.
      this.#askWithNewAttempt();
    } else if (reply.reason === 'permits') {
      this.#fail(exceededPermitsError(name, reply.permits!));
    } else {
      this.#fail((reply.reason === 'upgrade' ? upgradeError : claimedError)(name));
    }
  }

  #onBusy(sent: Moment, reply: Busy): void {
    const isFirst = this.#busy === null;
    this.#busy = { sent, reply };
    this.#splits = reply.isSplit ? this.#splits + 1 : 0;
    const { call } = this;
    const { options, holder } = call.request;
    const { waitMs, maxWaiters, leaseMs } = options;
    // If votes are split, the lock may be free: even a call that must not wait asks again.
    const asker = { holder, attempt: this.#attempt };
    if (waitMs === 0 && !reply.isSplit) return this.#fail(busyError(nameOf(call.request), reply, asker));
    if (reply.isFull) return this.#fail(queueFullError(nameOf(call.request), maxWaiters), false);
    if (isFirst && waitMs > 0) {
      call.onBusy();
      this.queue?.onBusy();
      call.tellWaiting(reply.ahead, reply.holder);
    }
    // A listener may have cancelled the call.
    if (this.#hasEnded) return;
    if (reply.isSplit) {
      if (reply.isSpent) this.#replaceAttempt();
      return this.#wait(splitRetryMs(reply.retryMs, this.#splits));
    }
    this.#isSpent = reply.isSpent === true;
    if (this.#isWoken) this.#ask();
    else this.#wait(busyRetryMs(reply, leaseMs));
  }

  #onFailure(error: unknown): void {
    this.#lastError = error;
    this.#failures += 1;
    if (error instanceof LockStoreError && error.retryable)
      this.#wait(failureRetryMs(this.#failures, this.context.random));
    else this.#fail(error);
  }

  #wait(pauseMs: number): void {
    this.call.keepContext();
    this.#state = 'waiting';
    this.#cancelPause = this.context.timers.setTimer(() => this.#ask(), pauseMs);
  }

  /** The command was answered, or it failed; `mayArrive`: the store may still execute the command, or a copy of it. */
  #onAnswer(mayArrive: boolean): void {
    this.#sentAt = null;
    this.#isUnanswered ||= mayArrive;
  }

  /** Begins a new attempt, which gets the messages of the store from now on. */
  #beginAttempt(): void {
    const { acquisitions, nextId } = this.context;
    acquisitions.delete(this.#attempt);
    this.#attempt = nextId();
    this.#isUnanswered = this.#isRevoked = this.#isSpent = this.#isInherited = false;
    acquisitions.set(this.#attempt, this);
  }

  #replaceAttempt(): void {
    // A spent attempt stays in the queues to be woken. It must leave them before the new attempt asks.
    if (this.#isSpent) this.#giveBack();
    this.#beginAttempt();
  }

  /** The attempt was released, by us or by an operator. */
  #askWithNewAttempt(): void {
    // An operator may have revoked only one of several keys, or nodes: holds of the others would block the new attempt.
    if (this.call.request.keys.length > 1 || this.#isRevoked) this.#giveBack();
    this.#replaceAttempt();
    this.#ask();
  }

  /** Releases everything that an attempt has, or may still get, in the store. Unless it was granted, its fire may be claimed again. */
  #giveBack(attempt = this.#attempt): void {
    const { request } = this.call;
    const { keys, options, claim } = request;
    const isPresent = attempt === this.#attempt;
    const wasGranted = isPresent && this.#state === 'granted';
    this.context.releaser.giveBackAttempt(
      {
        keys,
        attempt,
        leaseMs: requestedLeaseMs(request),
        claim: wasGranted ? undefined : claim,
        // A replaced attempt is given back because of a reply that came after its time limit.
        unanswered: !isPresent || this.#mayArrive,
        // If the call had the lock, the lock stays taken for this time, even if this release overtakes that of the call.
        holdAtLeastMs: wasGranted ? holdAtLeastMsOf(request) : 0,
      },
      commandTimeoutMs(options.leaseMs),
    );
  }

  /** Gives back the attempt of a reply that no acquisition waits for. */
  #giveBackLate({ outcome }: AcquireReply, attempt = this.#attempt): void {
    const { acquisitions, holds } = this.context;
    // An acquisition that still uses this attempt asks again; a call that holds the lock already has its grant.
    if (acquisitions.has(attempt) || holds.has(attempt)) return;
    if (outcome === 'granted' || outcome === 'busy') this.#giveBack(attempt);
  }

  #onPushed(pushed: PushedGrant): boolean {
    const receivedAt = moment(this.context.clock);
    const lease = this.#leaseOfPushed(pushed, receivedAt);
    if (!lease || remainingAt(lease, receivedAt) < leastProvenOfPushMs(pushed.remainingMs)) return false;
    return this.#grant([pushed.fencingToken], { lease, sent: receivedAt, serverTimeMs: pushed.serverTimeMs });
  }

  /**
   * Returns the lease that a pushed grant proves; null if the attempt must ask the store instead. The lease of a pushed grant
   * is short, so it does not suffice if no renewal follows soon, or if the lock must outlast a crash (`holdAtLeastMs`). The
   * grant is for one key only. It counts only from the server in whose queue the attempt is: another server may have
   * replaced that one. (In a cluster, servers have no names here; a grant of any node counts.)
   */
  #leaseOfPushed({ fencingToken, remainingMs, server }: PushedGrant, receivedAt: Moment): Lease | null {
    if (!this.#busy) return null;
    const { sent, reply } = this.#busy;
    const { keys, options } = this.call.request;
    const suffices = options.renew && options.holdAtLeastMs === 0 && keys.length === 1;
    const isNew = server === reply.server && fencingToken > (reply.lastToken ?? 0);
    return suffices && isNew ? leaseOfPush(remainingMs, sent, receivedAt) : null;
  }

  /** Ends the call with a grant; returns false if its lease can no longer be proven. */
  #grant(tokens: readonly number[], { lease, sent, serverTimeMs, fireMs }: StoreGrant): boolean {
    const receivedAt = moment(this.context.clock);
    if (remainingAt(lease, receivedAt) <= 0) return false;
    this.#end('granted');
    const { call, queue } = this;
    const attempt = this.#attempt;
    const { request } = call;
    const { keys, callerKeys = keys, claim } = request;
    const fire = claim && { job: claim.job, ms: fireMs, rememberMs: claim.rememberMs };
    const hold = call.succeed({
      request,
      attempt,
      tokens: keys.length === 1 ? tokens : callerKeys.map((key) => tokens[keys.indexOf(key)]!),
      handedOn: 0,
      hasNewHolder: this.#isInherited,
      fire,
      lease,
      sent,
      receivedAt,
      serverTimeMs,
      unanswered: this.#mayArrive ? () => this.#mayArrive : null,
    });
    queue?.onGranted(call, hold, serverTimeMs);
    return true;
  }

  #end(state: 'granted' | 'cancelled'): void {
    this.#state = state;
    this.#cancelPause?.();
    this.context.acquisitions.delete(this.#attempt);
  }

  /** Whether a command of the attempt is in flight, or may still reach the store. */
  get #mayArrive(): boolean {
    return this.#isUnanswered || this.#sentAt !== null;
  }

  get #hasEnded(): boolean {
    return this.#state === 'granted' || this.#state === 'cancelled';
  }
}
