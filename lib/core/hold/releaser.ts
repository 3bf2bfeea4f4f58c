import { type Clock } from '../clock.js';
import { LockError } from '../lock.errors.js';
import { type LockStore, type ReleaseReply, type ReleaseRequest } from '../store/lock-store.js';
import { LogLimit } from '../log-limit.js';
import { type Reporter, messageOf } from '../reporter.js';
import { type ScheduledCall, type TimerQueue } from '../timer-queue.js';
import { releaseRetryMs, RELEASES_AT_A_TIME } from '../timing.js';

/** How many may wait for their next try; more than that end with their leases, the oldest first. */
const MAX_WAITING = 10_000;

/** What became of a release: the store's answer, and whether an earlier command of it went unanswered. */
export interface Released {
  readonly reply: ReleaseReply | undefined;
  readonly asked: number;
}

interface Pending {
  readonly request: ReleaseRequest;
  readonly until: number;
  readonly timeoutMs: number;
  readonly resolve: (released: Released) => void;
  asked: number;
}

/**
 * Sends releases until they are confirmed, or until the lease is over and there is nothing to release. Each is sent at
 * once; those that had no answer wait together for rounds of tries, with growing pauses, so that an outage costs no
 * more the longer it takes.
 */
export class Releaser {
  /** What waits for its next try, in the order in which it came. */
  readonly #waiting = new Set<Pending>();
  #underWay = 0;
  /** How many of those are of the round that goes on; 0: there is none. */
  #inRound = 0;
  #isAnswered = false;
  /** How many rounds in a row had no answer at all. */
  #silentRounds = 0;
  #nextRound: ScheduledCall | null = null;
  #lastError: unknown;
  #isStopped = false;
  #idlers: (() => void)[] = [];
  readonly #log: LogLimit;

  constructor(
    private readonly clock: Clock,
    private readonly timers: TimerQueue,
    private readonly store: LockStore,
    reporter: Reporter,
  ) {
    const what = 'locks could not be released and end with their leases';
    this.#log = new LogLimit(clock, timers, what, (line) => reporter.warn(line));
  }

  get size(): number {
    return this.#waiting.size + this.#underWay;
  }

  /** Never rejects. `until` is when trying ends, on the monotonic clock; it is tried at least once. */
  release(request: ReleaseRequest, until: number, timeoutMs: number): Promise<Released> {
    return new Promise((resolve) => void this.#send({ request, until, timeoutMs, resolve, asked: 0 }));
  }

  /** What is not confirmed by now ends with its lease. */
  stop(): void {
    this.#isStopped = true;
    this.#nextRound?.cancel();
    for (const pending of this.#waiting) this.#giveUp(pending, this.#lastError);
    this.#log.flush();
  }

  /** Resolves when no release is under way. */
  async idle(): Promise<void> {
    while (this.size > 0) await new Promise<void>((resolve) => this.#idlers.push(resolve));
  }

  /** Tries again now what waits for its next try. */
  hurry(): void {
    if (this.#waiting.size > 0 && this.#inRound === 0) this.#retry();
  }

  /** Gives whether the store answered, whatever it said. */
  async #send(pending: Pending): Promise<boolean> {
    const { request, timeoutMs, resolve } = pending;
    pending.asked += 1;
    this.#underWay += 1;
    let isAnswered = true;
    try {
      const reply = await this.store.release(request, timeoutMs);
      resolve({ reply, asked: pending.asked });
    } catch (error) {
      isAnswered = !isRetryable(error);
      if (isAnswered || this.#isStopped || this.clock.now() >= pending.until) this.#giveUp(pending, error);
      else this.#wait(pending, error);
    }
    this.#underWay -= 1;
    this.#tellIdlers();
    return isAnswered;
  }

  #wait(pending: Pending, error: unknown): void {
    this.#lastError = error;
    const [oldest] = this.#waiting;
    if (this.#waiting.size >= MAX_WAITING) this.#giveUp(oldest!, error);
    this.#waiting.add(pending);
    this.#schedule();
  }

  #schedule(): void {
    if (this.#nextRound || this.#inRound > 0 || this.#waiting.size === 0) return;
    const at = this.clock.now() + releaseRetryMs(this.#silentRounds);
    this.#nextRound = this.timers.schedule(at, () => this.#retry());
  }

  #retry(): void {
    this.#nextRound?.cancel();
    this.#nextRound = null;
    const now = this.clock.now();
    for (const pending of this.#waiting) if (now >= pending.until) this.#giveUp(pending, this.#lastError);
    this.#isAnswered = false;
    for (let i = 0; i < RELEASES_AT_A_TIME; i += 1) this.#tryNext();
    this.#endRound();
  }

  /** Each answer has the next one tried; what has none waits for the next round, as the last one. */
  #tryNext(): void {
    const [pending] = this.#waiting;
    if (!pending) return;
    this.#waiting.delete(pending);
    this.#inRound += 1;
    void this.#send(pending).then((isAnswered) => {
      this.#inRound -= 1;
      this.#isAnswered ||= isAnswered;
      if (isAnswered) this.#tryNext();
      this.#endRound();
    });
  }

  #endRound(): void {
    if (this.#inRound > 0) return;
    this.#silentRounds = this.#isAnswered || this.#waiting.size === 0 ? 0 : this.#silentRounds + 1;
    this.#schedule();
  }

  #giveUp(pending: Pending, error: unknown): void {
    this.#waiting.delete(pending);
    const { request, asked, resolve } = pending;
    this.#log.add(`The lock "${request.key}" could not be released and ends with its lease: ${messageOf(error)}`);
    resolve({ reply: undefined, asked });
    this.#tellIdlers();
  }

  #tellIdlers(): void {
    if (this.size === 0) for (const tell of this.#idlers.splice(0)) tell();
  }
}

const isRetryable = (error: unknown): boolean =>
  !(error instanceof LockError) || (error as { retryable?: boolean }).retryable !== false;
