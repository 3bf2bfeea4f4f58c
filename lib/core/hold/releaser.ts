import { type Clock } from '../clock.js';
import { LockError } from '../lock.errors.js';
import { LogLimit } from '../log-limit.js';
import { type Reporter, messageOf } from '../reporter.js';
import { type Randomness } from '../randomness.js';
import { type LockStore, type ReleaseReply, type ReleaseRequest } from '../store/lock-store.js';
import { type ScheduledCall, type TimerQueue } from '../timer-queue.js';
import { releaseRetryMs, RELEASES_AT_A_TIME } from '../timing.js';

/** How many releases may wait for their next try; beyond that, the oldest ones are left to their leases. */
const MAX_WAITING = 10_000;

/** The outcome of a release. */
export interface ReleaseOutcome {
  /** The answer of the store; undefined if there was none until the lease was over. */
  readonly reply: ReleaseReply | undefined;
  /** How many commands were sent; all but the last had no answer. */
  readonly tries: number;
}

/** What releases are sent with. */
export interface ReleaserParts {
  readonly clock: Clock;
  readonly random: Randomness;
  readonly timers: TimerQueue;
  readonly store: LockStore;
  readonly reporter: Reporter;
}

/** A release whose first try had no answer. */
interface Pending {
  readonly request: ReleaseRequest;
  readonly until: number;
  readonly timeoutMs: number;
  readonly resolve: (outcome: ReleaseOutcome) => void;
  tries: number;
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
  /** How many releases under way belong to the current round; 0: there is no round. */
  #inRound = 0;
  #isAnswered = false;
  /** How many rounds in a row had no answer at all. */
  #silentRounds = 0;
  #nextRound: ScheduledCall | null = null;
  #lastError: unknown;
  #isStopped = false;
  #idlers: (() => void)[] = [];
  readonly #log: LogLimit;

  constructor(private readonly parts: ReleaserParts) {
    const { clock, timers, reporter } = parts;
    const what = 'locks could not be released and end with their leases';
    this.#log = new LogLimit(clock, timers, what, (line) => reporter.warn(line));
  }

  get size(): number {
    return this.#waiting.size + this.#underWay;
  }

  /**
   * Tries at least once, and again until `until`, a time of the monotonic clock. Calls back with the outcome, in the async
   * context of the caller.
   */
  giveBack(
    request: ReleaseRequest,
    until: number,
    timeoutMs: number,
    onOutcome: (outcome: ReleaseOutcome) => void,
  ): void {
    const onReply = (reply: ReleaseReply): void => onOutcome({ reply, tries: 1 });
    const onFailure = (error: unknown): void => {
      const later = new Promise<ReleaseOutcome>((resolve) => {
        this.#onFailure({ request, until, timeoutMs, resolve, tries: 1 }, error);
      });
      void later.then(onOutcome);
    };
    void this.#send(request, timeoutMs, onReply, onFailure);
  }

  /** Stops trying: what is not confirmed by now ends with its lease. */
  stop(): void {
    this.#isStopped = true;
    this.#nextRound?.cancel();
    for (const pending of this.#waiting) this.#leaveToLease(pending, this.#lastError);
    this.#log.flush();
  }

  /** Resolves when no release is under way. */
  async idle(): Promise<void> {
    while (this.size > 0) await new Promise<void>((resolve) => this.#idlers.push(resolve));
  }

  /** Starts the next round now. */
  retryNow(): void {
    if (this.#waiting.size > 0 && this.#inRound === 0) this.#startRound();
  }

  /** Sends one try, and resolves to what the callback for its outcome returns. */
  #send<T>(
    request: ReleaseRequest,
    timeoutMs: number,
    onReply: (reply: ReleaseReply) => T,
    onFailure: (error: unknown) => T,
  ): Promise<T> {
    this.#underWay += 1;
    return this.#ask(request, timeoutMs).then(
      (reply) => {
        this.#onSettled();
        return onReply(reply);
      },
      (error: unknown) => {
        const result = onFailure(error);
        this.#onSettled();
        return result;
      },
    );
  }

  /** A store that throws, against its contract, is like one that rejects. */
  #ask(request: ReleaseRequest, timeoutMs: number): Promise<ReleaseReply> {
    try {
      return this.parts.store.release(request, timeoutMs);
    } catch (error) {
      return Promise.reject(error);
    }
  }

  #onSettled(): void {
    this.#underWay -= 1;
    this.#tellIdlers();
  }

  /** Returns whether the store answered, although with an error. */
  #onFailure(pending: Pending, error: unknown): boolean {
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
    const { request, timeoutMs, resolve, tries } = pending;
    const onReply = (reply: ReleaseReply): boolean => {
      resolve({ reply, tries });
      return true;
    };
    void this.#send(request, timeoutMs, onReply, (error) => this.#onFailure(pending, error)).then((isAnswered) => {
      this.#inRound -= 1;
      this.#isAnswered ||= isAnswered;
      if (isAnswered) this.#tryNext();
      this.#endRound();
    });
  }

  #endRound(): void {
    if (this.#inRound > 0) return;
    this.#silentRounds = this.#isAnswered || this.#waiting.size === 0 ? 0 : this.#silentRounds + 1;
    this.#scheduleRound();
  }

  #leaveToLease(pending: Pending, error: unknown): void {
    this.#waiting.delete(pending);
    const { request, tries, resolve } = pending;
    this.#log.add(`The lock "${request.key}" could not be released and ends with its lease: ${messageOf(error)}`);
    resolve({ reply: undefined, tries });
    this.#tellIdlers();
  }

  #tellIdlers(): void {
    if (this.size > 0) return;
    for (const tell of this.#idlers.splice(0)) tell();
    // A module that is closed has no later moment for the number of the lines that were only counted.
    if (this.#isStopped) this.#log.flush();
  }
}

const isRetryable = (error: unknown): boolean =>
  !(error instanceof LockError) || (error as { retryable?: boolean }).retryable !== false;
