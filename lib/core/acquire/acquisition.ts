import { onAbort } from '../abort-listener.js';
import { setDeadline } from '../clock.js';
import { busyError, claimedError, unansweredError, upgradeError, waitTimeoutError } from '../error-texts.js';
import {
  type AcquisitionHost,
  type Busy,
  type LockRequest,
  grantOf,
  holderOf,
  leaseOfPushed,
  requestOf,
  waitedMsOf,
} from './request.js';
import { busyRetryMs, commandTimeoutMs, failureRetryMs, FIRST_ANSWER_MS, splitRetryMs } from '../timing.js';
import { type Grant } from '../hold/store-hold.js';
import { type Lease, leaseFrom, type Moment, moment, remainingOf } from '../hold/lease.js';
import { type AcquireReply, type WakeUp } from '../store/lock-store.js';
import { type LockBusyError, LockStoreError, type LockWaitTimeoutError, mayBeCarriedOut } from '../lock.errors.js';
import { type ScheduledCall } from '../timer-queue.js';

/**
 * One acquire, from the first command to its outcome: asks, waits for a wake-up, asks again. Whatever happens first
 * decides (a grant, the wait limit, an abort, the shutdown), once; what comes later is given back to the store.
 */
export class Acquisition {
  readonly granted: Promise<Grant>;
  #resolve!: (grant: Grant) => void;
  #reject!: (error: unknown) => void;
  readonly #stopListening: (() => void) | undefined;
  #attempt: string;
  #granted: string | undefined;
  #settled = false;
  /** When the command was sent that has no answer yet. */
  #inFlightSince: number | null = null;
  #askAgain = false;
  /** An operator took from this attempt what it was granted; the message may come before the reply that grants it. */
  #isRevoked = false;
  #failures = 0;
  /** The attempt was given back in part: it only waits. */
  #isSpent = false;
  /** How often in a row the votes of a quorum were split. */
  #splits = 0;
  /** A command of this acquisition had no answer: it may still be carried out, however late. */
  #unanswered = false;
  #lastError: unknown;
  /** The last `busy` and when its command was sent: what is granted by a push is granted after that. */
  #busy: { readonly sent: Moment; readonly reply: Busy } | null = null;
  #next: ScheduledCall | null = null;
  #cancelLimit: (() => void) | null = null;

  constructor(
    private readonly host: AcquisitionHost,
    private readonly wanted: LockRequest,
  ) {
    this.granted = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    const { signal, waitMs } = wanted.options;
    this.#attempt = host.nextAttempt();
    host.onAttempt(this, null, this.#attempt);
    this.#stopListening = signal && onAbort(signal, () => this.giveUp(signal.reason));
    const waitUntil = wanted.startedAt + waitMs;
    this.#armLimit(Math.min(Math.max(waitUntil, host.clock.now() + FIRST_ANSWER_MS), waitUntil + FIRST_ANSWER_MS));
    this.#ask();
  }

  /** Whether a `waiting` event told of it. */
  get hasWaited(): boolean {
    return this.#busy !== null && this.wanted.options.waitMs > 0;
  }

  /** Ends the wait with an error, unless it is over already. */
  giveUp(error: unknown): void {
    if (this.#settled) return;
    this.#settle();
    // Busy without a place leaves nothing behind, nor does what was never sent.
    const mayArrive = this.#unanswered || (this.#inFlightSince !== null && !this.host.store.withdraw?.(this.#attempt));
    if (this.hasWaited || mayArrive) this.#abandon(this.#attempt);
    this.#reject(error);
  }

  onWakeUp(wakeUp: WakeUp): void {
    if (this.#settled) return;
    if (wakeUp.kind === 'revoked') return void (this.#isRevoked = true);
    if (wakeUp.kind === 'granted' && this.#busy) {
      const receivedAt = moment(this.host.clock);
      const lease = leaseOfPushed(this.wanted, this.#busy, wakeUp, receivedAt);
      if (lease && this.#win([wakeUp.fencingToken], lease, receivedAt, wakeUp.serverTimeMs)) return;
    }
    this.#ask();
  }

  #ask(): void {
    if (this.#inFlightSince !== null) {
      this.#askAgain = true;
      return;
    }
    this.#next?.cancel();
    this.#askAgain = false;
    if (this.#isSpent) this.#takeNewAttempt();
    const attempt = this.#attempt;
    const sent = moment(this.host.clock);
    this.#inFlightSince = sent.at;
    const onLate = (reply: AcquireReply): void => this.#onLate(attempt, reply);
    const request = requestOf(this.wanted, attempt, this.host);
    this.host.store.acquire(request, commandTimeoutMs(this.wanted.options.leaseMs), onLate).then(
      (reply) => this.#onReply(attempt, sent, reply),
      (error: unknown) => this.#onFailure(error),
    );
  }

  #onReply(attempt: string, sent: Moment, reply: AcquireReply): void {
    this.#inFlightSince = null;
    if ('unanswered' in reply && reply.unanswered) this.#unanswered = true;
    // The caller has gone, and a release was sent; once more, in case it came before this command.
    if (this.#settled) return this.#onLate(attempt, reply);
    if (reply.outcome === 'given-back') {
      this.#takeNewAttempt();
      return this.#onFailure(reply.cause);
    }
    this.#failures = 0;
    if (reply.outcome === 'granted') {
      if (this.#isRevoked) return this.#askAnew(attempt);
      // A reply that came too late proves nothing: asking again makes the lease full, or starts anew.
      if (!this.#win(reply.fencingTokens, leaseFrom(sent, reply.remainingMs), sent, reply.serverTimeMs)) this.#ask();
    } else if (reply.outcome === 'busy') {
      this.#onBusy(sent, reply);
    } else if (reply.reason === 'released') {
      // Our cancel of an earlier try overtook it, or, once in a blue moon, a fingerprint collides.
      this.#askAnew(attempt);
    } else {
      this.giveUp(reply.reason === 'upgrade' ? upgradeError(this.#name) : claimedError(this.#name));
    }
  }

  /** The attempt was released, by us or by an operator. */
  #askAnew(attempt: string): void {
    // An operator may have revoked one of several keys, or nodes: what the attempt has of the others would be in our way.
    if (this.wanted.keys.length > 1 || this.#isRevoked) this.#abandon(attempt);
    this.#takeNewAttempt();
    this.#ask();
  }

  #takeNewAttempt(): void {
    const before = this.#attempt;
    // It waited in the queues, so that it is woken; its places go before the new one asks.
    if (this.#isSpent) this.#abandon(before);
    this.#isSpent = this.#isRevoked = false;
    this.#attempt = this.host.nextAttempt();
    this.host.onAttempt(this, before, this.#attempt);
  }

  /** An answer that nobody waits for any more: what it left in the store is given back. */
  #onLate(attempt: string, { outcome }: AcquireReply): void {
    if ((outcome !== 'granted' && outcome !== 'busy') || (!this.#settled && attempt === this.#attempt)) return;
    if (!this.host.isHeld(attempt)) this.#abandon(attempt);
  }

  #onBusy(sent: Moment, reply: Busy): void {
    const first = this.#busy === null;
    this.#busy = { sent, reply };
    const { waitMs, leaseMs } = this.wanted.options;
    if (waitMs === 0 && !reply.isSplit) return this.giveUp(busyError(this.#name, reply));
    if (first && waitMs > 0) {
      this.#armLimit(this.wanted.startedAt + waitMs);
      this.host.events.emit('waiting', () => ({ ...this.#event(), ahead: reply.ahead, holder: reply.holder }));
      // A listener may have ended it.
      if (this.#settled) return;
    }
    this.#splits = reply.isSplit ? this.#splits + 1 : 0;
    if (reply.isSplit && reply.isSpent) this.#takeNewAttempt();
    else this.#isSpent = reply.isSpent ?? false;
    if (reply.isSplit) return this.#askIn(splitRetryMs(reply.retryMs, this.#splits));
    if (this.#askAgain) return this.#ask();
    this.#askIn(busyRetryMs(reply, leaseMs));
  }

  #onFailure(error: unknown): void {
    this.#inFlightSince = null;
    if (mayBeCarriedOut(error)) this.#unanswered = true;
    if (this.#settled) return;
    this.#lastError = error;
    this.#failures += 1;
    if (!(error instanceof LockStoreError) || !error.retryable) return this.giveUp(error);
    this.#askIn(failureRetryMs(this.#failures));
  }

  #askIn(delayMs: number): void {
    this.#next?.cancel();
    this.#next = this.host.timers.schedule(this.host.clock.now() + delayMs, () => this.#ask());
  }

  #win(tokens: readonly number[], lease: Lease, sent: Moment, serverTimeMs: number): boolean {
    if (remainingOf(lease, this.host.clock) <= 0) return false;
    this.#settle();
    const attempt = (this.#granted = this.#attempt);
    const holder = holderOf(this.wanted, this.host);
    const timed = { lease, sent, serverTimeMs, waitedMs: waitedMsOf(this.wanted, this.host) };
    const unanswered = (): boolean => this.#mayArrive;
    this.#resolve(grantOf(this.wanted, { attempt, tokens, holder, unanswered, ...timed }));
    return true;
  }

  #armLimit(at: number): void {
    this.#cancelLimit?.();
    const isAwaited = (): boolean => this.#inFlightSince !== null;
    const cancel = (): void => this.giveUp(this.#limitError());
    this.#cancelLimit = setDeadline(this.host.timers, cancel, at - this.host.clock.now(), isAwaited);
  }

  #settle(): void {
    this.#settled = true;
    this.#next?.cancel();
    this.#cancelLimit?.();
    this.#stopListening?.();
    this.host.onAttempt(this, this.#attempt, null);
  }

  #abandon(attempt: string): void {
    const state = { wasGranted: attempt === this.#granted, unanswered: this.#mayArrive };
    this.host.abandon(this.wanted, attempt, state);
  }

  get #mayArrive(): boolean {
    return this.#unanswered || this.#inFlightSince !== null;
  }

  get #name() {
    return { key: this.wanted.name, mode: this.wanted.options.mode, permits: this.wanted.options.permits };
  }

  #event() {
    return { key: this.wanted.name, mode: this.wanted.options.mode, ...this.wanted.label };
  }

  #limitError(): LockBusyError | LockWaitTimeoutError | LockStoreError {
    const waitedMs = waitedMsOf(this.wanted, this.host);
    // It was busy once; whether it still is nobody knows.
    const isSilent = this.host.clock.now() - (this.#inFlightSince ?? Infinity) >= FIRST_ANSWER_MS;
    const reply = isSilent || this.#failures > 0 ? undefined : this.#busy?.reply;
    if (!reply) return unansweredError(this.#name, waitedMs, this.#failures > 0 ? this.#lastError : undefined);
    if (this.wanted.options.waitMs === 0) return busyError(this.#name, reply);
    this.host.events.emit('timedOut', () => ({ ...this.#event(), waitedMs, holder: reply.holder }));
    return waitTimeoutError(this.#name, waitedMs, reply);
  }
}
