import { type Clock } from '../clock.js';
import { type LockLostReason } from '../lock.errors.js';
import { type LockEvents } from '../lock.events.js';
import { LogLimit } from '../log-limit.js';
import { type Reporter, messageOf } from '../reporter.js';
import { type LockStore, type LostReply, type RenewReply, type RenewRequest } from '../store/lock-store.js';
import { type ScheduledCall, type TimerQueue } from '../timer-queue.js';
import { RENEWALS_PER_LEASE, renewRetryMs, renewTimeoutMs } from '../timing.js';
import { leaseFrom, type Moment, moment } from './lease.js';
import { lossReason } from './loss.js';
import { type StoreHold } from './store-hold.js';

interface Watch {
  readonly lock: StoreHold;
  readonly maxHoldAt: number;
  /** When the next renewal is due; `Infinity` while one is in flight. */
  renewAt: number;
  scheduled: ScheduledCall;
}

/**
 * Renews the leases of all holds of a module, together, after a third of their proven time, and marks the lost ones. A
 * renewal ends as renewed, lost or unknown. An unknown one is tried again until the local deadline; only then is the lock
 * lost.
 */
export class Watchdog {
  readonly #watched = new Map<StoreHold, Watch>();
  readonly #due: Watch[] = [];
  readonly #log: LogLimit;
  /** When messages were last missed. */
  #missedAt = -Infinity;

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

  /** The holds whose leases are renewed. For tests. */
  get locks(): Iterable<StoreHold> {
    return this.#watched.keys();
  }

  /** How many these are. For tests of leaks. */
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

  /** Logs the failed renewals that were only counted so far. */
  stop(): void {
    this.#log.flush();
  }

  /** Renews all leases now: messages about lost locks may have been missed up to this moment. */
  renewAll(): void {
    this.#missedAt = this.clock.now();
    for (const watch of this.#watched.values()) {
      // A lock whose lease is over is marked as lost in this turn.
      if (watch.renewAt === Infinity || watch.lock.deadline <= this.#missedAt) continue;
      watch.renewAt = this.#missedAt;
      this.#schedule(watch);
    }
  }

  /** Renews one lease now, with the length that the caller asks for. */
  async extend(lock: StoreHold, leaseMs: number): Promise<Renewal> {
    const sent = moment(this.clock);
    lock.onRenewing(leaseMs);
    const renewal = renewalOf(lock, await this.#sendRenewals(requestsOf(lock, leaseMs, this.#timeoutOf(lock))));
    const watch = this.#watched.get(lock);
    if (watch) this.#apply(watch, sent, renewal);
    return renewal;
  }

  /**
   * After a third of the proven lease, counted from the command that proved it. That lease may be shorter than the requested
   * one (a grant that was handed over, a short extension), or longer.
   */
  #dueAt(lock: StoreHold, sent: Moment): number {
    if (!lock.grant.renew) return Infinity;
    const now = this.clock.now();
    // The reply to an earlier command says nothing about messages that were missed after it.
    return sent.at < this.#missedAt ? now : sent.at + (now + lock.provenMs - sent.at) / RENEWALS_PER_LEASE;
  }

  /** When to try again after a renewal without an answer. */
  #retryAt({ grant, deadline }: StoreHold): number {
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
    // The lease is over by the wall clock only: the machine may have slept. Ask Redis.
    if (watch.renewAt < Infinity && watch.lock.provenMs === 0) watch.renewAt = now;
    if (now >= watch.renewAt) {
      watch.renewAt = Infinity;
      // All renewals that are due in this turn are sent together. (Fake timers of test runners replace `queueMicrotask`.)
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
    // One command per time limit: a short lease does not wait for the answers to the long ones.
    await Promise.all([...batches].map(([timeoutMs, batch]) => this.#renew(batch, timeoutMs)));
  }

  #timeoutOf({ grant, deadline }: StoreHold): number {
    return renewTimeoutMs(grant.leaseMs, deadline - this.clock.now());
  }

  async #renew(batch: readonly Watch[], timeoutMs: number): Promise<void> {
    const sent = moment(this.clock);
    for (const { lock } of batch) lock.onRenewing(lock.grant.leaseMs);
    const requests = batch.map(({ lock }) => requestsOf(lock, lock.grant.leaseMs, timeoutMs));
    const replies = await this.#sendRenewals(requests.flat());
    let at = 0;
    for (const [i, watch] of batch.entries()) {
      const own = replies.slice(at, (at += requests[i]!.length));
      this.#apply(watch, sent, renewalOf(watch.lock, own));
    }
  }

  /** A store that rejects, against its contract, must not end the renewals. */
  #sendRenewals(requests: readonly RenewRequest[]): Promise<readonly RenewReply[]> {
    return this.store
      .renew(requests)
      .catch((cause: unknown) => requests.map((): RenewReply => ({ outcome: 'unknown', cause })));
  }

  /** Applies a renewal; ignores a reply that comes after the end or the loss. */
  #apply(watch: Watch, sent: Moment, renewal: Renewal): void {
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
      watch.renewAt = this.#retryAt(lock);
      this.events.emit('renewFailed', () => ({ ...lock.event, cause: renewal.cause }));
    }
    // A listener may have released the lock.
    if (!lock.isOver) this.#schedule(watch);
  }

  /** Stops watching a lock that is lost; without a `reason`, its lease ran out. */
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

/** The outcome of a renewal of all keys of a lock. */
type Renewal = Exclude<RenewReply, LostReply> | { readonly outcome: 'lost'; readonly reason: LockLostReason };

/** Lost if one key is lost, else unknown if one is unknown, else renewed for the shortest of all. */
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
