import { type Clock } from './clock.js';
import { LockError } from './lock.errors.js';
import { type LockStore, type ReleaseReply, type ReleaseRequest } from './lock-store.js';
import { type Reporter, messageOf } from './reporter.js';
import { type TimerQueue } from './timer-queue.js';

/** What became of a release: the store's answer, and whether an earlier command of it went unanswered. */
export interface Released {
  readonly reply: ReleaseReply | undefined;
  readonly asked: number;
}

/** Sends releases until they are confirmed, or until the lease is over and there is nothing to release. */
export class Releaser {
  readonly #pending = new Set<Promise<Released>>();
  readonly #pauses = new Set<() => void>();
  #isStopped = false;

  constructor(
    private readonly clock: Clock,
    private readonly timers: TimerQueue,
    private readonly store: LockStore,
    private readonly reporter: Reporter,
  ) {}

  get size(): number {
    return this.#pending.size;
  }

  /** Never rejects. `until` is when trying ends, on the monotonic clock; it is tried at least once. */
  release(request: ReleaseRequest, until: number, timeoutMs: number): Promise<Released> {
    const pending = this.#run(request, until, timeoutMs).finally(() => this.#pending.delete(pending));
    this.#pending.add(pending);
    return pending;
  }

  /** What is not confirmed by now ends with its lease. */
  stop(): void {
    this.#isStopped = true;
  }

  /** Resolves when no release is under way. */
  async idle(): Promise<void> {
    while (this.#pending.size > 0) await Promise.all(this.#pending);
  }

  /** Tries again now what waits for its next try. */
  hurry(): void {
    for (const resume of this.#pauses) resume();
  }

  async #pause(ms: number): Promise<void> {
    await new Promise<void>((resolve) => {
      const resume = (): void => {
        timer.cancel();
        this.#pauses.delete(resume);
        resolve();
      };
      const timer = this.timers.schedule(this.clock.now() + ms, resume);
      this.#pauses.add(resume);
    });
  }

  async #run(request: ReleaseRequest, until: number, timeoutMs: number): Promise<Released> {
    for (let asked = 1; ; asked += 1) {
      try {
        return { reply: await this.store.release(request, timeoutMs), asked };
      } catch (error) {
        const retryable = !(error instanceof LockError) || (error as { retryable?: boolean }).retryable !== false;
        if (!retryable || this.#isStopped || this.clock.now() >= until) {
          this.reporter.warn(
            `The lock "${request.key}" could not be released and ends with its lease: ${messageOf(error)}`,
          );
          return { reply: undefined, asked };
        }
        const pauseMs = Math.min(25 * 2 ** asked, 1_000) * (0.5 + Math.random() / 2);
        await this.#pause(pauseMs);
      }
    }
  }
}
