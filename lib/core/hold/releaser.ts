import { AsyncLocalStorage } from 'node:async_hooks';
import { CallContext } from '../call-context.js';
import { type Clock } from '../clock.js';
import { LockError, mayBeCarriedOut } from '../lock.errors.js';
import { LogLimit } from '../log-limit.js';
import { type Reporter } from '../reporter.js';
import { textWithin } from '../error-texts.js';
import { type Randomness } from '../randomness.js';
import { releasesOfAttempt } from '../store/attempt-ids.js';
import { type LockStore, type ReleaseReply, type ReleaseRequest } from '../store/lock-store.js';
import { type ScheduledCall, type TimerQueue } from '../timer-queue.js';
import { releaseRetryMs, RELEASES_AT_A_TIME } from '../timing.js';

/** How many releases may wait for their next try; beyond that, the oldest ones end with their leases. */
const MAX_WAITING = 10_000;

/** Receives the outcome of a release. */
export interface ReleaseListener {
  /**
   * `reply`: the answer of the store; undefined if there was none until the lease was over. `isRepeated`: an earlier copy had no
   * answer, and may have been executed.
   */
  onReleased(key: string, reply: ReleaseReply | undefined, isRepeated: boolean): void;
}

/** The collaborators of a `Releaser`. */
interface ReleaserParts {
  readonly clock: Clock;
  readonly random: Randomness;
  readonly timers: TimerQueue;
  readonly store: Pick<LockStore, 'release'>;
  readonly reporter: Reporter;
}

/** A release that is not confirmed yet. */
class Pending {
  tries = 1;
  /** Whether a copy without an answer may have been executed. */
  isRepeated = false;
  /** The async context of the caller, once the outcome comes in another one. */
  context: CallContext | null = null;

  constructor(
    readonly request: ReleaseRequest,
    readonly until: number,
    readonly timeoutMs: number,
    private readonly listener: ReleaseListener | null,
  ) {}

  tell(reply: ReleaseReply | undefined): void {
    const { listener, context, request, isRepeated } = this;
    if (context) context.run(() => listener?.onReleased(request.key, reply, isRepeated));
    else listener?.onReleased(request.key, reply, isRepeated);
  }
}

/**
 * Releases holds and gives attempts back. It sends each release until it is confirmed, or until the lease is over and
 * nothing is left to release. The first try is sent at once. Releases without an answer wait together for rounds of tries,
 * with growing pauses, so that the load of an outage does not grow with its length.
 */
export class Releaser {
  /** The releases that wait for their next try, in the order in which they came. */
  readonly #waiting = new Set<Pending>();
  #underWay = 0;
  /** The number of pending releases of the current round; 0: no round is running. */
  #inRound = 0;
  #isAnswered = false;
  /** The number of rounds in a row without any answer. */
  #silentRounds = 0;
  #nextRound: ScheduledCall | null = null;
  #lastError: unknown;
  #isStopped = false;
  #idlers: (() => void)[] = [];
  readonly #log: LogLimit;
  readonly #inOwnContext = AsyncLocalStorage.snapshot();

  constructor(private readonly parts: ReleaserParts) {
    const { clock, timers, reporter } = parts;
    const what = 'locks could not be released and end with their leases';
    this.#log = new LogLimit(clock, timers, what, (line) => reporter.warn(line));
  }

  get size(): number {
    return this.#waiting.size + this.#underWay;
  }

  /**
   * Tries at least once, and again until `until`, a time of the monotonic clock. Reports the outcome in the async context of the
   * caller.
   */
  giveBack(request: ReleaseRequest, until: number, timeoutMs: number, listener: ReleaseListener | null = null): void {
    this.#send(new Pending(request, until, timeoutMs, listener));
  }

  /** Releases what an attempt has, or may still get, in the store. This does not belong to the call that made the attempt. */
  giveBackAttempt(attempt: Parameters<typeof releasesOfAttempt>[0], timeoutMs: number): void {
    const until = this.parts.clock.now() + attempt.leaseMs;
    this.#inOwnContext(() => {
      for (const release of releasesOfAttempt(attempt)) this.giveBack(release, until, timeoutMs);
    });
  }

  /** Stops trying: releases without a confirmation end with their leases. */
  stop(): void {
    this.#isStopped = true;
    this.#nextRound?.cancel();
    for (const pending of this.#waiting) this.#leaveToLease(pending, this.#lastError);
    this.#log.flush();
  }

  /** Resolves when no release is in flight. */
  async idle(): Promise<void> {
    while (this.size > 0) await new Promise<void>((resolve) => this.#idlers.push(resolve));
  }

  /** Starts the next round now. */
  retryNow(): void {
    if (this.#waiting.size > 0 && this.#inRound === 0) this.#startRound();
  }

  #onReply(pending: Pending, reply: ReleaseReply): void {
    const { tries } = pending;
    this.#onSettled();
    pending.tell(reply);
    if (tries > 1) this.#onTried(true);
  }

  /** A try had no answer, or the store answered with an error. */
  #onFailure(pending: Pending, error: unknown): void {
    const isFirst = pending.tries === 1;
    pending.isRepeated ||= mayBeCarriedOut(error);
    if (isFirst) pending.context = new CallContext();
    const isAnswered = this.#leaveOrRetry(pending, error);
    this.#onSettled();
    if (!isFirst) this.#onTried(isAnswered);
  }

  /** Sends one try. */
  #send(pending: Pending): void {
    this.#underWay += 1;
    const { request, isRepeated, timeoutMs } = pending;
    let answer: Promise<ReleaseReply>;
    try {
      answer = this.parts.store.release(isRepeated ? { ...request, isRepeated } : request, timeoutMs);
    } catch (error) {
      // In violation of the contract of stores.
      answer = Promise.reject(error);
    }
    void answer.then(
      (reply) => this.#onReply(pending, reply),
      (error: unknown) => this.#onFailure(pending, error),
    );
  }

  #onSettled(): void {
    this.#underWay -= 1;
    this.#tellIdlers();
  }

  /** Returns whether the store answered, although with an error. */
  #leaveOrRetry(pending: Pending, error: unknown): boolean {
    const isAnswered = !isRetryable(error);
    if (isAnswered || this.#isStopped || this.parts.clock.now() >= pending.until) this.#leaveToLease(pending, error);
    else this.#retryLater(pending, error);
    return isAnswered;
  }

  #retryLater(pending: Pending, error: unknown): void {
    this.#lastError = error;
    const [oldest] = this.#waiting;
    if (this.#waiting.size >= MAX_WAITING) this.#leaveToLease(oldest!, error);
    this.#waiting.add(pending);
    this.#scheduleRound();
  }

  #scheduleRound(): void {
    if (this.#nextRound || this.#inRound > 0 || this.#waiting.size === 0) return;
    const { clock, random, timers } = this.parts;
    const at = clock.now() + releaseRetryMs(this.#silentRounds, random);
    this.#nextRound = timers.schedule(at, () => this.#startRound());
  }

  #startRound(): void {
    this.#nextRound?.cancel();
    this.#nextRound = null;
    const now = this.parts.clock.now();
    for (const pending of this.#waiting) if (now >= pending.until) this.#leaveToLease(pending, this.#lastError);
    this.#isAnswered = false;
    for (let i = 0; i < RELEASES_AT_A_TIME; i += 1) this.#tryNext();
    this.#endRound();
  }

  /** Each answer starts the next try; a release without an answer goes to the end of the queue, for the next round. */
  #tryNext(): void {
    const [pending] = this.#waiting;
    if (!pending) return;
    this.#waiting.delete(pending);
    this.#inRound += 1;
    pending.tries += 1;
    this.#send(pending);
  }

  #onTried(isAnswered: boolean): void {
    this.#inRound -= 1;
    this.#isAnswered ||= isAnswered;
    if (isAnswered) this.#tryNext();
    this.#endRound();
  }

  #endRound(): void {
    if (this.#inRound > 0) return;
    this.#silentRounds = this.#isAnswered || this.#waiting.size === 0 ? 0 : this.#silentRounds + 1;
    this.#scheduleRound();
  }

  #leaveToLease(pending: Pending, error: unknown): void {
    this.#waiting.delete(pending);
    const { key } = pending.request;
    this.#log.add(`The lock "${key}" could not be released and ends with its lease: ${textWithin(error, key)}`);
    pending.tell(undefined);
    this.#tellIdlers();
  }

  #tellIdlers(): void {
    if (this.size > 0) return;
    for (const tell of this.#idlers.splice(0)) tell();
    // A closed module has no later chance to log the number of counted lines.
    if (this.#isStopped) this.#log.flush();
  }
}

const isRetryable = (error: unknown): boolean =>
  !(error instanceof LockError) || (error as { retryable?: boolean }).retryable !== false;
