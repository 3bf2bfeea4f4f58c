import { busyError, exceededPermitsError, queueFullError } from '../busy-errors.js';
import { claimedError, upgradeError } from '../error-texts.js';
import { leaseFrom, type Moment, moment, remainingAt } from '../hold/lease.js';
import { type LockError, LockStoreError, mayBeCarriedOut } from '../lock.errors.js';
import { nameOfHolder } from '../store/holder-text.js';
import { type AcquireReply, type WakeUp } from '../store/lock-store.js';
import { busyRetryMs, failureRetryMs, leastProvenOfPushMs, splitRetryMs } from '../timing.js';
import { type AcquireCall } from './acquire-call.js';
import { Answers, type Busy, type PushedGrant } from './answers.js';
import { type Attempt, type StoreGrant } from './attempt.js';
import { type AcquireContext, type WaitingCall } from './attempts.js';
import { type LimitedCall, Limits } from './limits.js';
import { eventOf, type LockRequest, nameOf } from './request.js';

/**
 * `asking`: a command is under way; its answer leads to any state. `waiting`: a wake-up or the end of a pause leads to
 * `asking`, a pushed grant to `granted`. In both, an abort, a shutdown or the call's time limit leads to `cancelled`.
 */
type State = 'asking' | 'waiting' | 'granted' | 'cancelled';

/**
 * Acquires a lock for one call, from its first command to its outcome: it asks, waits, and asks again. The first outcome
 * counts. A grant that comes later is given back to the store. When the call is cancelled while others of its turn wait, the
 * acquisition keeps its place in the queue, and goes on for the first of them.
 */
export class Acquisition implements WaitingCall, LimitedCall {
  #call: AcquireCall;
  #state: State = 'waiting';
  #attempt: Attempt;
  readonly #answers: Answers;
  #limits: Limits;
  #cancelPause: (() => void) | undefined;

  constructor(
    private readonly context: AcquireContext,
    call: AcquireCall,
    /** Whether the lock is known to be busy. */
    isBusy = false,
  ) {
    this.#call = call;
    const { request } = call;
    // A call that is cancelled before its first answer needs the context for its listeners only.
    if (request.options.signal || context.events.isHeard('acquireFailed')) call.keepContext();
    const now = moment(context.clock);
    this.#attempt = context.attempts.begin(this, request);
    this.#answers = new Answers(isBusy);
    this.#limits = new Limits(context.timers, call, this, { isAnswered: isBusy, now: now.at });
    this.#send(now);
  }

  /** Whether the lock was found busy. */
  get wasBusy(): boolean {
    return this.#answers.wasBusy;
  }

  onWakeUp(wakeUp: WakeUp): void {
    if (this.#hasEnded) return;
    if (wakeUp.kind === 'revoked') this.#attempt.isRevoked = true;
    else if (wakeUp.kind === 'granted' && this.#onPushed(wakeUp)) return;
    else if (this.#state === 'asking') this.#attempt.isWoken = true;
    else this.#ask();
  }

  isAnswerAwaited(): boolean {
    return this.#state === 'asking';
  }

  onLimit(): void {
    const call = this.#call;
    const error = this.limitError(call.request);
    this.context.onTimeout(call.request, error);
    // A listener may have cancelled the call: then this goes on for another one.
    if (this.#call === call) this.cancel(error);
  }

  /** The error of a call whose time is up now: this one, or one that waits behind it and so many others of its process. */
  limitError(request: LockRequest, behind = 0): LockError {
    return this.#answers.limitError(request, this.context.timers.now(), this.#attempt, behind);
  }

  cancel(error: unknown): void {
    if (this.#hasEnded) return;
    const call = this.#call;
    const successor = call.turn?.successor();
    if (!successor) return this.#fail(error);
    this.#goOnFor(successor);
    this.context.fail(call, error);
  }

  #goOnFor(call: AcquireCall): void {
    this.#limits.stop();
    this.#call = call;
    this.#attempt.request = call.request;
    const { clock, timers } = this.context;
    this.#limits = new Limits(timers, call, this, { isAnswered: this.#answers.isKnownBusy, now: clock.now() });
  }

  #fail(error: unknown, hasPlace = this.wasBusy && this.#call.request.options.waitMs > 0): void {
    this.#end('cancelled');
    this.context.attempts.giveBackCancelled(this.#attempt, hasPlace);
    this.context.fail(this.#call, error);
    this.#call.turn?.onFailed();
  }

  /** Asks again. */
  #ask(): void {
    this.#call.keepContext();
    this.#cancelPause?.();
    if (this.#attempt.isSpent) this.#replaceAttempt();
    this.#send();
  }

  #send(now = moment(this.context.clock)): void {
    this.#state = 'asking';
    this.context.attempts.send(this.#attempt, now, this);
  }

  get hasWaited(): boolean {
    return this.#call.hasWaited;
  }

  onReply(attempt: Attempt, sent: Moment, reply: AcquireReply): void {
    attempt.onAnswer('unanswered' in reply && reply.unanswered === true);
    // The attempt was given back when the call ended. It is given back again: that release may have overtaken the command.
    if (this.#hasEnded) return this.context.attempts.giveBackLate(attempt, reply);
    if (reply.outcome === 'given-back') {
      this.#replaceAttempt();
      return this.onFailure(attempt, reply.cause);
    }
    this.#answers.onAnswer();
    if (reply.outcome === 'granted') {
      if (attempt.isRevoked) return this.#askWithNewAttempt();
      // A reply that came too late proves nothing: another command renews the lease, or starts over.
      const { fencingTokens, remainingMs, serverTimeMs, fireMs } = reply;
      const granted = { lease: leaseFrom(sent, remainingMs), sent, serverTimeMs, fireMs };
      if (!this.#grant(fencingTokens, granted)) this.#ask();
    } else if (reply.outcome === 'busy') {
      this.#onBusy(sent, reply);
    } else if (reply.reason === 'released') {
      // A release of ours overtook the command, or (very rarely) the store takes the attempt for another, released one.
      this.#askWithNewAttempt();
    } else if (reply.reason === 'permits') {
      this.#fail(exceededPermitsError(nameOf(this.#call.request), reply.permits!));
    } else {
      this.#fail((reply.reason === 'upgrade' ? upgradeError : claimedError)(nameOf(this.#call.request)));
    }
  }

  #onBusy(sent: Moment, reply: Busy): void {
    const isFirst = !this.#answers.wasBusy;
    this.#answers.onBusy(sent, reply);
    const { options, holder } = this.#call.request;
    const { waitMs, maxWaiters, leaseMs } = options;
    // If votes are split, it may be that nobody holds the lock: even a call that must not wait asks again.
    const asker = { holder, attempt: this.#attempt.id };
    if (waitMs === 0 && !reply.isSplit) return this.#fail(busyError(nameOf(this.#call.request), reply, asker));
    if (reply.isFull) return this.#fail(queueFullError(nameOf(this.#call.request), maxWaiters), false);
    if (isFirst && waitMs > 0) this.#onFirstBusy(reply);
    // A listener may have cancelled it.
    if (this.#hasEnded) return;
    if (reply.isSplit) {
      if (reply.isSpent) this.#replaceAttempt();
      return this.#wait(splitRetryMs(reply.retryMs, this.#answers.splits));
    }
    this.#attempt.isSpent = reply.isSpent ?? false;
    if (this.#attempt.isWoken) this.#ask();
    else this.#wait(busyRetryMs(reply, leaseMs));
  }

  #onFirstBusy({ ahead, holder }: Busy): void {
    const call = this.#call;
    const { request, hasWaited, turn } = call;
    this.#limits.onFirstAnswer();
    turn?.onBusy();
    call.hasWaited = true;
    if (hasWaited) return;
    const event = () => ({ ...eventOf(request), ahead, holder: nameOfHolder(holder) });
    call.inContext(() => this.context.events.emit('waiting', event));
  }

  onFailure(attempt: Attempt, error: unknown): void {
    attempt.onAnswer(mayBeCarriedOut(error));
    if (this.#hasEnded) return;
    this.#answers.onFailure(error);
    if (error instanceof LockStoreError && error.retryable)
      this.#wait(failureRetryMs(this.#answers.failures, this.context.random));
    else this.#fail(error);
  }

  #wait(pauseMs: number): void {
    this.#call.keepContext();
    this.#state = 'waiting';
    this.#cancelPause = this.context.timers.setTimer(() => this.#ask(), pauseMs);
  }

  /** The attempt was released, by us or by an operator. */
  #askWithNewAttempt(): void {
    this.#attempt = this.context.attempts.replaceReleased(this.#attempt, this);
    this.#ask();
  }

  #replaceAttempt(): void {
    this.#attempt = this.context.attempts.replace(this.#attempt, this);
  }

  #onPushed(pushed: PushedGrant): boolean {
    const receivedAt = moment(this.context.clock);
    const lease = this.#answers.leaseOfPushed(this.#call.request, pushed, receivedAt);
    if (!lease || remainingAt(lease, receivedAt) < leastProvenOfPushMs(pushed.remainingMs)) return false;
    return this.#grant([pushed.fencingToken], { lease, sent: receivedAt, serverTimeMs: pushed.serverTimeMs });
  }

  /** Ends the call with a grant; returns false if its lease cannot be proven any more. */
  #grant(tokens: readonly number[], granted: StoreGrant): boolean {
    const receivedAt = moment(this.context.clock);
    if (remainingAt(granted.lease, receivedAt) <= 0) return false;
    this.#end('granted');
    const grant = this.#attempt.onGrant(tokens, granted, receivedAt);
    const hold = this.context.grant(this.#call, grant);
    this.#call.turn?.onGranted(hold, grant.serverTimeMs, this.wasBusy);
    return true;
  }

  #end(state: 'granted' | 'cancelled'): void {
    this.#state = state;
    this.#cancelPause?.();
    this.#limits.stop();
    this.context.attempts.end(this.#attempt);
  }

  get #hasEnded(): boolean {
    return this.#state === 'granted' || this.#state === 'cancelled';
  }
}
