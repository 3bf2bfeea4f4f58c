import { type Grant } from './held-lock.js';
import { type Lease, leaseFrom, type Moment, moment, remainingOf } from './lease.js';
import { LockBusyError, LockReentryError, LockStoreError, LockWaitTimeoutError } from './lock.errors.js';
import { type ResolvedLockOptions } from './lock-options.js';
import { type AcquireReply, type LockStore, type WakeUp } from './lock-store.js';
import { messageOf } from './reporter.js';
import { type ScheduledCall, type TimerQueue } from './timer-queue.js';
import { type Clock } from './clock.js';
import { commandTimeoutMs } from './watchdog.js';

/** How long the first answer may take even if `waitMs` is shorter. */
const FIRST_ANSWER_MS = 1_000;

/** A waiter that dies blocks others for at most this long, and not longer than a holder would. */
export const waiterLeaseMs = (leaseMs: number): number => Math.max(500, Math.min(leaseMs, 6_000));

/** What an acquisition needs from its locker. */
export interface AcquisitionHost {
  readonly clock: Clock;
  readonly timers: TimerQueue;
  readonly store: LockStore;
  readonly holder: string;
  nextAttempt(): string;
  /** The acquisition now has this attempt (null: it is over). */
  onAttempt(acquisition: Acquisition, before: string | null, now: string | null): void;
  /** Whatever this attempt has in the store is to be given back. */
  abandon(key: string, attempt: string, leaseMs: number): void;
}

/**
 * One acquire, from the first command to its outcome: asks, waits for a wake-up, asks again. Whatever happens first
 * decides (a grant, the wait limit, an abort, the shutdown), once; what comes later is given back to the store.
 */
export class Acquisition {
  readonly granted: Promise<Grant>;
  #resolve!: (grant: Grant) => void;
  #reject!: (error: unknown) => void;
  readonly #startedAt: number;
  #attempt: string;
  #settled = false;
  #won = false;
  #inFlight = false;
  #askAgain = false;
  #failures = 0;
  /** A command of this acquisition had no answer: it may still be carried out, however late. */
  #unanswered = false;
  #lastError: unknown;
  /** The last `busy` and when its command was sent: what relates the server's clock to ours. */
  #busy: { sent: Moment; reply: AcquireReply & { outcome: 'busy' } } | null = null;
  #next: ScheduledCall | null = null;
  #limit: ScheduledCall | null = null;

  constructor(
    private readonly host: AcquisitionHost,
    private readonly key: string,
    private readonly options: ResolvedLockOptions,
    private readonly context: string,
  ) {
    this.granted = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    this.#startedAt = host.clock.now();
    this.#attempt = host.nextAttempt();
    host.onAttempt(this, null, this.#attempt);
    options.signal?.addEventListener('abort', this.#onAbort, { once: true });
    this.#armLimit(this.#startedAt + Math.max(options.waitMs, FIRST_ANSWER_MS));
    this.#ask();
  }

  /** Ends the wait with an error, unless it is over already. */
  giveUp(error: unknown): void {
    if (this.#settled) return;
    this.#settle();
    // Busy without queueing leaves nothing behind; anything else may be, or may become, a place or a hold.
    if (this.options.waitMs > 0 || this.#inFlight || this.#unanswered) this.#abandon();
    this.#reject(error);
  }

  onWakeUp(wakeUp: WakeUp): void {
    if (this.#settled) return;
    // Without renewals the short lease of a pushed grant would be all there is: ask, which makes it full.
    if (wakeUp.kind === 'granted' && this.#busy && this.options.renew) {
      const { sent, reply } = this.#busy;
      // The server's clock at `sent` was no later than in the reply: so this deadline comes before the server's.
      const proven = leaseFrom(sent, wakeUp.serverTimeMs + wakeUp.remainingMs - reply.serverTimeMs);
      const receivedAt = moment(this.host.clock);
      const received = leaseFrom(receivedAt, wakeUp.remainingMs);
      const lease = received.deadline > proven.deadline ? proven : received;
      if (this.#win(wakeUp.fencingToken, lease, receivedAt)) return;
    }
    this.#ask();
  }

  #ask(): void {
    if (this.#inFlight) {
      this.#askAgain = true;
      return;
    }
    this.#next?.cancel();
    this.#inFlight = true;
    this.#askAgain = false;
    const { mode, leaseMs, waitMs, holdAtLeastMs } = this.options;
    const attempt = this.#attempt;
    const sent = moment(this.host.clock);
    const request = {
      key: this.key,
      attempt,
      owner: undefined,
      mode,
      leaseMs: Math.max(leaseMs, holdAtLeastMs),
      waiterLeaseMs: waitMs === 0 ? 0 : waiterLeaseMs(leaseMs),
      fair: true,
      limit: 0,
      holder: this.host.holder + this.context,
    };
    this.host.store.acquire(request, commandTimeoutMs(leaseMs)).then(
      (reply) => this.#onReply(attempt, sent, reply),
      (error: unknown) => this.#onFailure(error),
    );
  }

  #onReply(attempt: string, sent: Moment, reply: AcquireReply): void {
    this.#inFlight = false;
    if (this.#settled) {
      // The caller has gone, and a release was sent; once more, in case it came before this grant.
      if (reply.outcome === 'granted' && !this.#won) this.#abandon();
      return;
    }
    this.#failures = 0;
    if (reply.outcome === 'granted') {
      // A reply that came too late proves nothing: asking again makes the lease full, or starts anew.
      if (!this.#win(reply.fencingToken, leaseFrom(sent, reply.remainingMs), sent)) this.#ask();
    } else if (reply.outcome === 'busy') {
      this.#onBusy(sent, reply);
    } else if (reply.reason === 'upgrade') {
      this.giveUp(upgradeError(this.key));
    } else {
      // Released already: our cancel of an earlier try overtook it, or, once in a blue moon, a fingerprint collides.
      this.#attempt = this.host.nextAttempt();
      this.host.onAttempt(this, attempt, this.#attempt);
      this.#ask();
    }
  }

  #onBusy(sent: Moment, reply: AcquireReply & { outcome: 'busy' }): void {
    const first = this.#busy === null;
    this.#busy = { sent, reply };
    if (this.options.waitMs === 0) return this.giveUp(this.#busyError());
    if (first) this.#armLimit(this.#startedAt + this.options.waitMs);
    if (this.#askAgain) return this.#ask();
    const pollMs = waiterLeaseMs(this.options.leaseMs) / 3;
    // The head asks when the lease of the holder may end: nobody will tell it that a holder has died.
    const soonMs = reply.ahead === 0 && reply.retryMs > 0 ? reply.retryMs + 2 : pollMs;
    this.#askIn(Math.min(pollMs, soonMs));
  }

  #onFailure(error: unknown): void {
    this.#inFlight = false;
    if (this.#settled) return;
    this.#lastError = error;
    this.#failures += 1;
    this.#unanswered = true;
    if (error instanceof LockStoreError && !error.retryable) return this.giveUp(error);
    const pauseMs = Math.min(20 * 2 ** this.#failures, 500);
    this.#askIn(pauseMs * (0.5 + Math.random() / 2));
  }

  #askIn(delayMs: number): void {
    this.#next?.cancel();
    this.#next = this.host.timers.schedule(this.host.clock.now() + delayMs, () => this.#ask());
  }

  #win(fencingToken: number, lease: Lease, sent: Moment): boolean {
    if (remainingOf(lease, this.host.clock) <= 0) return false;
    this.#won = true;
    this.#settle();
    const { mode, leaseMs, renew, maxHoldMs, holdAtLeastMs } = this.options;
    const attempt = this.#attempt;
    const kept = {
      key: this.key,
      attempt,
      owner: attempt,
      fencingToken,
      mode,
      leaseMs,
      renew,
      maxHoldMs,
      holdAtLeastMs,
    };
    this.#resolve({ ...kept, lease, sent });
    return true;
  }

  #armLimit(at: number): void {
    this.#limit?.cancel();
    this.#limit = this.host.timers.schedule(at, () => this.giveUp(this.#limitError()));
  }

  #settle(): void {
    this.#settled = true;
    this.#next?.cancel();
    this.#limit?.cancel();
    this.options.signal?.removeEventListener('abort', this.#onAbort);
    this.host.onAttempt(this, this.#attempt, null);
  }

  #abandon(): void {
    this.host.abandon(this.key, this.#attempt, this.options.leaseMs);
  }

  readonly #onAbort = (): void => this.giveUp(this.options.signal!.reason);

  #waitedMs(): number {
    return Math.round(this.host.clock.now() - this.#startedAt);
  }

  #busyError(): LockBusyError {
    const holder = this.#busy?.reply.holder;
    const text =
      `The lock "${this.key}" (${this.options.mode}) is held${holder ? ` by ${holder}` : ''}, and the call was not to ` +
      'wait. Try later, or give it a `waitMs`.';
    return new LockBusyError(text, { key: this.key, mode: this.options.mode });
  }

  #limitError(): LockWaitTimeoutError | LockStoreError {
    const { mode } = this.options;
    const waitedMs = this.#waitedMs();
    if (!this.#busy) {
      const text =
        `Redis gave no answer for the lock "${this.key}" within ${waitedMs} ms` +
        `${this.#lastError === undefined ? '' : `: ${messageOf(this.#lastError)}`}. Check the connection.`;
      return new LockStoreError(text, { key: this.key, mode, cause: this.#lastError });
    }
    const { holder, ahead } = this.#busy.reply;
    const text =
      `The lock "${this.key}" (${mode}) was still busy after ${waitedMs} ms${holder ? `, held by ${holder}` : ''}` +
      `${ahead > 0 ? `, with ${ahead} waiting before` : ''}. Wait longer (\`waitMs\`), or hold it shorter.`;
    return new LockWaitTimeoutError(text, { key: this.key, mode, waitedMs, holder, cause: this.#lastError });
  }
}

const upgradeError = (key: string): LockReentryError =>
  new LockReentryError(
    `The owner that asks to write "${key}" holds it for reading: an upgrade would wait for itself. Release the read ` +
      'lock first, or acquire it for writing from the start.',
    { key, mode: 'write' },
  );
