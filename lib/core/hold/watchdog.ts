import { type Clock } from '../clock.js';
import { type StoreHold } from './store-hold.js';
import { leaseFrom, type Moment, moment } from './lease.js';
import { lossReason } from './loss.js';
import { RENEWALS_PER_LEASE, renewRetryMs, renewTimeoutMs } from '../timing.js';
import { type LockEvents } from '../lock.events.js';
import { type LockStore, type LostReply, type RenewReply, type RenewRequest } from '../store/lock-store.js';
import { type LockLostReason } from '../lock.errors.js';
import { LogLimit } from '../log-limit.js';
import { type Reporter, messageOf } from '../reporter.js';
import { type ScheduledCall, type TimerQueue } from '../timer-queue.js';

interface Watch {
  readonly lock: StoreHold;
  readonly maxHoldAt: number;
  /** When the next renewal is due; `Infinity` while one is in flight. */
  renewAt: number;
  scheduled: ScheduledCall;
}

/**
 * Renews the leases of all held locks of a module at a third of what is proven, together, and tells the holders of those
 * that are lost. A renewal is renewed, lost, or unknown; unknown is asked again until the local deadline, and only then it
 * is lost.
 */
export class Watchdog {
  readonly #watched = new Map<StoreHold, Watch>();
  readonly #due: Watch[] = [];
  readonly #log: LogLimit;
  #gapAt = -Infinity;

  constructor(
    private readonly clock: Clock,
    private readonly timers: TimerQueue,
    private readonly store: LockStore,
    reporter: Reporter,
    private readonly events: LockEvents,
  ) {
    const what = 'renewals of locks failed and are tried again';
    this.#log = new LogLimit(clock, timers, what, (line) => reporter.warn(line));
  }

  /** The locks that are held now. */
  get locks(): Iterable<StoreHold> {
    return this.#watched.keys();
  }

  get size(): number {
    return this.#watched.size;
  }

  watch(lock: StoreHold): void {
    const { sent, maxHoldMs } = lock.grant;
    const watch = { lock, renewAt: this.#dueAt(lock, sent), maxHoldAt: sent.at + maxHoldMs } as Watch;
    this.#watched.set(lock, watch);
    this.#schedule(watch);
  }

  unwatch(lock: StoreHold): void {
    this.#watched.get(lock)?.scheduled.cancel();
    this.#watched.delete(lock);
  }

  /** Says what is left to say of renewals. */
  stop(): void {
    this.#log.flush();
  }

  /** Renews all locks now: word that one is lost may have been missed until this moment. */
  renewAll(): void {
    this.#gapAt = this.clock.now();
    for (const watch of this.#watched.values()) {
      // One that is over by now is told in this turn.
      if (watch.renewAt === Infinity || watch.lock.deadline <= this.#gapAt) continue;
      watch.renewAt = this.#gapAt;
      this.#schedule(watch);
    }
  }

  /** Renews now, for a caller who asked for more; the same four outcomes. */
  async extend(lock: StoreHold, leaseMs: number): Promise<Renewal> {
    const sent = moment(this.clock);
    const renewal = renewalOf(lock, await this.#ask(requestsOf(lock, leaseMs, this.#timeoutOf(lock))));
    const watch = this.#watched.get(lock);
    if (watch) this.#take(watch, sent, renewal);
    return renewal;
  }

  /**
   * A third of what is proven, counted from the command that proved it. That may be less than was asked for (a grant that
   * was handed over, an extension by little), or more.
   */
  #dueAt(lock: StoreHold, sent: Moment): number {
    if (!lock.grant.renew) return Infinity;
    const now = this.clock.now();
    // What was sent before a gap ended says nothing about all of it.
    return sent.at < this.#gapAt ? now : sent.at + (now + lock.provenMs - sent.at) / RENEWALS_PER_LEASE;
  }

  /** After a renewal without an answer. */
  #againAt({ grant, deadline }: StoreHold): number {
    if (!grant.renew) return Infinity;
    const now = this.clock.now();
    return now + renewRetryMs(grant.leaseMs, deadline - now);
  }

  #schedule(watch: Watch): void {
    watch.scheduled?.cancel();
    const at = Math.min(watch.renewAt, watch.lock.deadline, watch.maxHoldAt);
    watch.scheduled = this.timers.schedule(at, () => this.#check(watch));
  }

  #check(watch: Watch): void {
    const now = this.clock.now();
    if (now >= watch.maxHoldAt) return this.#lose(watch, 'max-hold');
    if (now >= watch.lock.deadline) return this.#lose(watch);
    // Over by the wall clock only: the machine may have slept. Redis knows.
    if (watch.renewAt < Infinity && watch.lock.provenMs === 0) watch.renewAt = now;
    if (now >= watch.renewAt) {
      watch.renewAt = Infinity;
      // What is due in this turn travels together. (Fake timers of test runners fake `queueMicrotask`.)
      if (this.#due.push(watch) === 1) void Promise.resolve().then(() => this.#renewDue());
    }
    this.#schedule(watch);
  }

  async #renewDue(): Promise<void> {
    const batches = new Map<number, Watch[]>();
    for (const watch of this.#due.splice(0)) {
      if (watch.lock.isOver) continue;
      const timeoutMs = this.#timeoutOf(watch.lock);
      const batch = batches.get(timeoutMs);
      if (batch) batch.push(watch);
      else batches.set(timeoutMs, [watch]);
    }
    // By time-out: a short lease does not wait for the answers to the long ones.
    await Promise.all([...batches].map(([timeoutMs, batch]) => this.#renew(batch, timeoutMs)));
  }

  #timeoutOf({ grant, deadline }: StoreHold): number {
    return renewTimeoutMs(grant.leaseMs, deadline - this.clock.now());
  }

  async #renew(batch: readonly Watch[], timeoutMs: number): Promise<void> {
    const sent = moment(this.clock);
    const requests = batch.map(({ lock }) => requestsOf(lock, lock.grant.leaseMs, timeoutMs));
    const replies = await this.#ask(requests.flat());
    let at = 0;
    for (const [i, watch] of batch.entries()) {
      const own = replies.slice(at, (at += requests[i]!.length));
      this.#take(watch, sent, renewalOf(watch.lock, own));
    }
  }

  /** A store that breaks its word and rejects must not end the renewals. */
  #ask(requests: readonly RenewRequest[]): Promise<readonly RenewReply[]> {
    return this.store
      .renew(requests)
      .catch((cause: unknown) => requests.map((): RenewReply => ({ outcome: 'unknown', cause })));
  }

  /** A reply that comes after the release or the loss is of no interest. */
  #take(watch: Watch, sent: Moment, renewal: Renewal): void {
    const { lock } = watch;
    if (lock.isOver) return;
    if (renewal.outcome === 'lost') return this.#lose(watch, renewal.reason);
    if (renewal.outcome === 'renewed') {
      lock.prove(leaseFrom(sent, renewal.remainingMs));
      watch.renewAt = this.#dueAt(lock, sent);
      this.events.emit('renewed', () => ({ ...lock.event, remainingMs: renewal.remainingMs }));
    } else {
      if (lock.renewError === undefined) {
        this.#log.add(`Renewing the lock "${lock.key}" failed, trying again: ${messageOf(renewal.cause)}`);
      }
      lock.renewError = renewal.cause ?? new Error('no answer');
      watch.renewAt = this.#againAt(lock);
      this.events.emit('renewFailed', () => ({ ...lock.event, cause: renewal.cause }));
    }
    // A listener may have released it.
    if (!lock.isOver) this.#schedule(watch);
  }

  /** Ends the watch of a lock that is lost for this reason; without one, because its lease ran out. */
  #lose(watch: Watch, reason?: LockLostReason): void {
    const { lock } = watch;
    this.unwatch(lock);
    if (reason === undefined) lock.expire();
    else lock.lose(reason);
  }
}

const requestsOf = (lock: StoreHold, leaseMs: number, timeoutMs: number): RenewRequest[] => {
  const { mode, grant } = lock;
  const owner = grant.owner === grant.attempt ? undefined : grant.owner;
  return grant.holds.map((hold) => ({ ...hold, leaseMs, timeoutMs, mode, owner, holder: grant.holder }));
};

/** What a renewal of all holds of a lock came to. */
type Renewal = Exclude<RenewReply, LostReply> | { readonly outcome: 'lost'; readonly reason: LockLostReason };

/** One hold that is lost loses the lock; one that is unknown makes it unknown; else the shortest counts. */
function renewalOf({ grant }: StoreHold, replies: readonly RenewReply[]): Renewal {
  let shortest: Renewal | undefined;
  let unknown: Renewal | undefined;
  for (const [i, reply] of replies.entries()) {
    if (reply.outcome === 'lost') return { outcome: 'lost', reason: lossReason(grant.holds[i]!.fencingToken, reply) };
    if (reply.outcome === 'unknown') unknown = reply;
    else if (shortest?.outcome !== 'renewed' || reply.remainingMs < shortest.remainingMs) shortest = reply;
  }
  return unknown ?? shortest!;
}
