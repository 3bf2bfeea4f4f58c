import { type Clock } from '../clock.js';
import { type LockLostReason } from '../lock.errors.js';
import { type LockEvents } from '../lock.events.js';
import { LogLimit } from '../log-limit.js';
import { type Reporter, messageOf } from '../reporter.js';
import { type LockStore, type LostReply, type RenewReply, type RenewRequest } from '../store/lock-store.js';
import { type ScheduledCall, type TimerQueue } from '../timer-queue.js';
import { RENEWALS_AT_A_TIME, RENEWALS_PER_LEASE, renewRetryMs, renewTimeoutMs } from '../timing.js';
import { type Handover } from './handover.js';
import { leaseFrom, type Moment, moment, remainingAt } from './lease.js';
import { type StoreHold } from './store-hold.js';
import { Wheel } from './wheel.js';

/**
 * Renews the leases of all holds of a module, together, after a third of their proven time, and marks lost ones. The outcome of a
 * renewal is renewed, lost or unknown. An unknown one is tried again until the local deadline; only then is the lock lost.
 */
export class Watchdog {
  /** Each hold that is watched: until its next renewal, or until its deadline if none will be due before. */
  readonly #wheel: Wheel<StoreHold>;
  /** The holds that are renewed next. */
  #due: StoreHold[] = [];
  #nextRenewals: ScheduledCall | undefined;
  readonly #log: LogLimit;
  /** When messages may last have been missed. */
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
    this.#wheel = new Wheel(timers, (lock) => this.#onDue(lock));
  }

  /** Begins now, when the grant has just arrived. */
  watch(lock: StoreHold, now: Moment): void {
    const { sentAt } = lock;
    const { maxHoldMs } = lock.request.options;
    if (maxHoldMs < Infinity) {
      lock.maxHoldEnd = this.timers.schedule(sentAt + maxHoldMs, () => lock.lose('max-hold'));
    }
    this.#awaitRenewal(lock, this.#dueAt(lock, sentAt, now), now.at);
  }

  unwatch(lock: StoreHold): void {
    this.#wheel.remove(lock);
    lock.maxHoldEnd?.cancel();
    if (this.#wheel.size > 0) return;
    this.#nextRenewals?.cancel();
    this.#due = [];
  }

  /** Logs the number of failed renewals that were only counted so far. */
  stop(): void {
    this.#log.flush();
  }

  /** Renews all leases now: messages about lost locks may have been missed up to this moment. */
  renewAll(): void {
    this.#missedAt = this.clock.now();
    const locks = [...this.#wheel];
    // A lock with an expired lease is marked as lost in this turn, and one that awaits an answer is not renewed again.
    for (const lock of locks) this.#wheel.put(lock, this.#missedAt, this.#missedAt);
  }

  /** Renews one lease now, with the length that the caller asks for. */
  async extend(lock: StoreHold, leaseMs: number): Promise<Renewal> {
    const sent = sentNow(lock, leaseMs, moment(this.clock));
    lock.isExtended = true;
    const renewal = await this.ask(lock, leaseMs);
    this.#apply(sent, renewal);
    return renewal;
  }

  /** Sends a renewal of one lease; the answer changes nothing here. */
  async ask(lock: StoreHold, leaseMs: number): Promise<Renewal> {
    return renewalOf(lock, await this.#sendRenewals(requestsOf(lock, leaseMs, this.#timeoutOf(lock))));
  }

  /**
   * Renews a hold that was handed on, which proves that the earlier calls had it until their end. Calls that end meanwhile share the
   * next renewal.
   */
  async prove(lock: StoreHold, handover: Handover<StoreHold>): Promise<void> {
    if (handover.isProving) return;
    handover.isProving = true;
    const isAnswered = await this.#renew([lock], this.#timeoutOf(lock));
    handover.isProving = false;
    const { present } = lock;
    // Without an answer, the watchdog tries again; a release is also a proof.
    if (isAnswered && handover.unproven.length > 0 && !present.isEnded) await this.prove(present, handover);
  }

  /**
   * Returns when a renewal is due: after a third of the proven lease, counted from the command that proved it. That lease may be
   * shorter than the requested one (a handed-over grant, a short extension), or longer.
   */
  #dueAt(lock: StoreHold, sentAt: number, now: Moment): number {
    if (!lock.request.options.renew) return Infinity;
    // The reply to an earlier command proves nothing about messages that were missed later.
    if (sentAt < this.#missedAt) return now.at;
    return sentAt + (now.at + remainingAt(lock, now) - sentAt) / RENEWALS_PER_LEASE;
  }

  /** When to try again after a renewal without an answer. */
  #retryAt({ request: { options }, deadline }: StoreHold): number {
    if (!options.renew) return Infinity;
    const now = this.clock.now();
    return now + renewRetryMs(options.leaseMs, deadline - now);
  }

  /** Waits until a renewal is due: at `at`, or never. */
  #awaitRenewal(lock: StoreHold, at: number, now = this.clock.now()): void {
    lock.awaitsRenewal = at < Infinity;
    this.#wheel.put(lock, Math.min(at, lock.deadline), now);
  }

  #onDue(lock: StoreHold): void {
    const now = this.clock.now();
    if (now >= (lock.maxHoldEnd?.at ?? Infinity)) return lock.lose('max-hold');
    if (now >= lock.deadline) return lock.expire();
    if (lock.awaitsRenewal && this.#due.push(lock) === 1) this.#renewSoon();
    // During the renewal, or without one, the wheel finds the end of the lease.
    this.#awaitRenewal(lock, Infinity);
  }

  /** Renews together what is due in this turn. (Fake timers of test runners replace `queueMicrotask`.) */
  #renewSoon(): void {
    void Promise.resolve().then(() => this.#renewDue());
  }

  async #renewDue(): Promise<void> {
    const batches = new Map<number, StoreHold[]>();
    for (const lock of this.#due.splice(0, RENEWALS_AT_A_TIME)) {
      if (lock.isOver) continue;
      const timeoutMs = this.#timeoutOf(lock);
      const batch = batches.get(timeoutMs);
      if (batch) batch.push(lock);
      else batches.set(timeoutMs, [lock]);
    }
    // The others follow in the next turns: thousands of locks must not block the event loop.
    if (this.#due.length > 0) this.#nextRenewals = this.timers.schedule(this.clock.now(), () => this.#renewSoon());
    // One command per time limit: a short lease does not wait for the answers to the long ones.
    await Promise.all([...batches].map(([timeoutMs, batch]) => this.#renew(batch, timeoutMs)));
  }

  #timeoutOf({ leaseMs, deadline }: StoreHold): number {
    return renewTimeoutMs(leaseMs, deadline - this.clock.now());
  }

  /** Returns whether all keys were answered. A lost lock is not renewed. */
  async #renew(batch: readonly StoreHold[], timeoutMs: number): Promise<boolean> {
    const now = moment(this.clock);
    const leaseOf = (lock: StoreHold): number => (lock.isOver ? 0 : lock.leaseMs);
    const requests = batch.flatMap((lock) => requestsOf(lock, leaseOf(lock), timeoutMs));
    const sent = batch.map((lock) => sentNow(lock, leaseOf(lock), now));
    const replies = await this.#sendRenewals(requests);
    let at = 0;
    for (const renewal of sent) {
      const { length } = renewal.lock.keys;
      this.#apply(renewal, renewalOf(renewal.lock, replies.slice(at, at + length)));
      at += length;
    }
    return replies.every(({ outcome }) => outcome !== 'unknown');
  }

  /** A store that rejects, in violation of its contract, must not end the renewals. */
  async #sendRenewals(requests: readonly RenewRequest[]): Promise<readonly RenewReply[]> {
    try {
      return await this.store.renew(requests);
    } catch (cause) {
      return requests.map(() => ({ outcome: 'unknown', cause }));
    }
  }

  /** Applies a renewal to the call that has the lock now; after its end or loss, only the proof for earlier calls counts. */
  #apply({ lock: { present: lock }, sent, ended }: SentRenewal, renewal: Renewal): void {
    if (renewal.outcome === 'renewed') lock.handover?.prove(ended);
    if (renewal.outcome === 'lost') {
      if (lock.isEnded) return;
      // Also if this process noticed a loss before: that loss was not reported to the calls that have handed it on.
      return lock.loseInStore(renewal.reason);
    }
    if (lock.isOver) return;
    let renewAt: number;
    if (renewal.outcome === 'renewed') {
      lock.prove(leaseFrom(sent, renewal.remainingMs));
      renewAt = this.#dueAt(lock, sent.at, moment(this.clock));
      this.events.emit('renewed', () => ({ ...lock.event, remainingMs: renewal.remainingMs }));
    } else {
      if (lock.renewError === undefined) {
        this.#log.add(`Renewing the lock "${lock.key}" failed, trying again: ${messageOf(renewal.cause)}`);
      }
      lock.renewError = renewal.cause ?? new Error('no answer');
      renewAt = this.#retryAt(lock);
      this.events.emit('renewFailed', () => ({ ...lock.event, cause: renewal.cause }));
    }
    // A listener may have released the lock.
    if (!lock.isOver) this.#awaitRenewal(lock, renewAt);
  }
}

/** A sent renewal, and the number of calls that had handed the hold on before: it can prove these. */
interface SentRenewal {
  readonly lock: StoreHold;
  readonly sent: Moment;
  readonly ended: number;
}

function sentNow(lock: StoreHold, leaseMs: number, sent: Moment): SentRenewal {
  lock.onRenewing(leaseMs);
  return { lock, sent, ended: lock.handover?.count ?? 0 };
}

const requestsOf = (lock: StoreHold, leaseMs: number, timeoutMs: number): RenewRequest[] => {
  const { mode } = lock;
  const { fire } = lock;
  const { holder, options } = lock.request;
  // Field by field: a spread takes several times as long.
  return lock.refs.map(({ key, attempt, fencingToken }) => ({
    key,
    attempt,
    fencingToken,
    leaseMs,
    mode,
    owner: options.owner,
    holder,
    hasNewHolder: lock.hasNewHolder,
    fire,
    timeoutMs,
    hold: lock,
  }));
};

/** The outcome of a renewal of all keys of a lock. */
export type Renewal = Exclude<RenewReply, LostReply> | { readonly outcome: 'lost'; readonly reason: LockLostReason };

/** Lost if one key is lost, else unknown if one is unknown, else renewed for the shortest of all. */
function renewalOf(lock: StoreHold, replies: readonly RenewReply[]): Renewal {
  let shortest: Renewal | undefined;
  let unknown: Renewal | undefined;
  for (const [i, reply] of replies.entries()) {
    if (reply.outcome === 'lost')
      return { outcome: 'lost', reason: lock.lossReason(lock.refs[i]!.fencingToken, reply) };
    if (reply.outcome === 'unknown') unknown = reply;
    else if (shortest?.outcome !== 'renewed' || reply.remainingMs < shortest.remainingMs) shortest = reply;
  }
  return unknown ?? shortest!;
}
