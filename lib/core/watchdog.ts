import { type Clock } from './clock.js';
import { type HeldLock } from './held-lock.js';
import { leaseFrom, type Moment, moment } from './lease.js';
import { type LockLostReason } from './lock.errors.js';
import { type LockStore, type RenewReply } from './lock-store.js';
import { type Reporter, messageOf } from './reporter.js';
import { type ScheduledCall, type TimerQueue } from './timer-queue.js';

/** How long one command of a hold with this lease may take before it is sent again. */
export const commandTimeoutMs = (leaseMs: number): number => Math.min(Math.max(leaseMs / 4, 100), 5_000);

interface Watch {
  readonly lock: HeldLock;
  readonly maxHoldAt: number;
  /** When the next renewal is due; `Infinity` while one is in flight. */
  renewAt: number;
  /** The last renewal had no answer: when the lease runs out now, Redis was unreachable. */
  unanswered: unknown;
  scheduled: ScheduledCall;
}

/**
 * Renews the leases of all held locks of a module at a third, together, and tells the holders of those that are lost.
 * A renewal is renewed, lost, or unknown; unknown is asked again until the local deadline, and only then it is lost.
 */
export class Watchdog {
  readonly #watched = new Map<HeldLock, Watch>();
  readonly #due: Watch[] = [];

  constructor(
    private readonly clock: Clock,
    private readonly timers: TimerQueue,
    private readonly store: LockStore,
    private readonly reporter: Reporter,
  ) {}

  /** The locks that are held now. */
  get locks(): Iterable<HeldLock> {
    return this.#watched.keys();
  }

  get size(): number {
    return this.#watched.size;
  }

  watch(lock: HeldLock): void {
    const { sent, renew, maxHoldMs } = lock.grant;
    // A third of what is left now: a grant that was pushed is proven from a command of long ago.
    const now = this.clock.now();
    const renewAt = renew ? now + (lock.deadline - now) / 3 : Infinity;
    const watch = { lock, renewAt, maxHoldAt: sent.at + maxHoldMs, unanswered: undefined } as Watch;
    this.#watched.set(lock, watch);
    this.#schedule(watch);
  }

  unwatch(lock: HeldLock): void {
    this.#watched.get(lock)?.scheduled.cancel();
    this.#watched.delete(lock);
  }

  /** Renews now, for a caller who asked for more; the same four outcomes. */
  async extend(lock: HeldLock, leaseMs: number): Promise<RenewReply> {
    const sent = moment(this.clock);
    const { key, attempt, fencingToken } = lock.grant;
    const request = { key, attempt, fencingToken, leaseMs };
    const [reply] = await this.store.renew([request], commandTimeoutMs(lock.grant.leaseMs));
    const watch = this.#watched.get(lock);
    if (watch && reply) this.#take(watch, sent, reply);
    return reply!;
  }

  #schedule(watch: Watch): void {
    watch.scheduled?.cancel();
    const at = Math.min(watch.renewAt, watch.lock.deadline, watch.maxHoldAt);
    watch.scheduled = this.timers.schedule(at, () => this.#check(watch));
  }

  #check(watch: Watch): void {
    const now = this.clock.now();
    if (now >= watch.maxHoldAt) return this.#lose(watch, 'max-hold');
    if (now >= watch.lock.deadline) {
      return this.#lose(watch, watch.unanswered === undefined ? 'expired' : 'unreachable', watch.unanswered);
    }
    if (now >= watch.renewAt) {
      watch.renewAt = Infinity;
      // What is due in this turn travels together.
      if (this.#due.push(watch) === 1) queueMicrotask(() => void this.#renewDue());
    }
    this.#schedule(watch);
  }

  async #renewDue(): Promise<void> {
    const batch = this.#due.splice(0).filter(({ lock }) => !lock.isOver);
    if (batch.length === 0) return;
    const sent = moment(this.clock);
    const timeoutMs = Math.min(...batch.map(({ lock }) => commandTimeoutMs(lock.grant.leaseMs)));
    const requests = batch.map(({ lock: { grant } }) => ({
      key: grant.key,
      attempt: grant.attempt,
      fencingToken: grant.fencingToken,
      leaseMs: grant.leaseMs,
    }));
    const replies = await this.store
      .renew(requests, timeoutMs)
      .catch((cause: unknown) => requests.map((): RenewReply => ({ outcome: 'unknown', cause })));
    batch.forEach((watch, i) => this.#take(watch, sent, replies[i]!));
  }

  /** A reply that comes after the release or the loss is of no interest. */
  #take(watch: Watch, sent: Moment, reply: RenewReply): void {
    const { lock } = watch;
    if (lock.isOver) return;
    if (reply.outcome === 'lost') {
      return this.#lose(watch, reply.lastToken > lock.fencingToken ? 'taken' : 'expired');
    }
    const { leaseMs, renew } = lock.grant;
    if (reply.outcome === 'renewed') {
      lock.prove(leaseFrom(sent, reply.remainingMs));
      watch.unanswered = undefined;
      watch.renewAt = renew ? sent.at + leaseMs / 3 : Infinity;
    } else {
      if (watch.unanswered === undefined) {
        this.reporter.warn(`Renewing the lock "${lock.key}" failed, trying again: ${messageOf(reply.cause)}`);
      }
      watch.unanswered = reply.cause ?? new Error('no answer');
      watch.renewAt = renew ? this.clock.now() + Math.min(Math.max(leaseMs / 20, 20), 1_000) : Infinity;
    }
    this.#schedule(watch);
  }

  #lose(watch: Watch, reason: LockLostReason, cause?: unknown): void {
    const { lock } = watch;
    this.unwatch(lock);
    lock.lose(reason, cause);
    if (lock.lost) this.reporter.error(lock.lost.message);
  }
}
