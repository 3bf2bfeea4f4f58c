import {
  type AcquireReply,
  type HoldRef,
  type LostReply,
  type ReleaseReply,
  type ReleaseRequest,
  type RenewReply,
  type RenewRequest,
} from '../../core/store/lock-store.js';
import { HandOver, type Tell } from './hand-over.js';
import { type Hold, MemoryLock, remember } from './memory-lock.js';
import { type Ask } from './memory-queue.js';
import { type Look } from './memory-state.js';
import { admits, busyReply, claimedBy, endRun, entryToken, knows, makeRead, refusal, startRun } from './rules.js';

/** How often unused locks are looked for. */
const FORGET_EVERY_MS = 60_000;

/**
 * The locks of one server, with the semantics of the scripts in Redis: operations are atomic, as every one runs to its end
 * within a turn. That the replies are the same is tested by random games (test/scripts/model.spec.ts).
 */
export class MemoryLocks {
  /** Whether the holds of others are in the way; false for a fake, which grants whatever is asked. */
  excludes = true;
  readonly #locks = new Map<string, MemoryLock>();
  readonly #handOver: HandOver;
  /** The time of the command, which is read once: all that it does happens at that moment. */
  #micros = 0;
  #forgotAt = 0;

  /** `clock`: the server's clock, in microseconds since the epoch. */
  constructor(
    private readonly tell: Tell,
    private readonly clock: () => number,
    /** For how long what is not used any more is remembered, in milliseconds. */
    private readonly keepMs = 600_000,
    /** Tokens are at least as great, whatever the clock says. */
    leastToken = 0,
  ) {
    this.#handOver = new HandOver(tell, () => Math.max(this.#micros, leastToken));
  }

  get keys(): readonly string[] {
    return [...this.#locks.keys()];
  }

  lock(key: string): MemoryLock {
    const known = this.#locks.get(key) ?? new MemoryLock();
    this.#locks.set(key, known);
    return known;
  }

  /** For who only looks: a key that was never locked is not remembered. */
  look(key: string): Look {
    this.#readClock();
    return { lock: this.#locks.get(key) ?? new MemoryLock(), now: this.#now };
  }

  /** Forgets, now and then, the locks whose time is over: keys of Redis end so, by their time to live. */
  forgetUnused(): void {
    this.#readClock();
    if (Math.abs(this.#now - this.#forgotAt) < FORGET_EVERY_MS) return;
    this.#forgotAt = this.#now;
    for (const [key, lock] of this.#locks) if (lock.keptUntil(this.keepMs) <= this.#now) this.#locks.delete(key);
  }

  /** Grants all keys, or none; then the attempt waits at each up to the first that is busy. */
  acquire(ask: Ask & { readonly sentMicros?: undefined }): AcquireReply;
  acquire(ask: Ask): AcquireReply | LateReply;
  acquire(ask: Ask): AcquireReply | LateReply {
    this.#readClock();
    const { attempt } = ask;
    const locks = ask.keys.map((key) => this.#swept(key));
    const isKnown = locks.some((lock) => knows(lock, attempt));
    const reason = locks.map((lock) => refusal(lock, ask, isKnown)).find((found) => found !== undefined);
    if (reason) {
      for (const lock of locks) lock.leave(attempt);
      for (const lock of locks) if (lock.freed) this.#handOver.serve(lock);
      if (reason === 'late') return { outcome: 'refused', reason, micros: this.#micros };
      return { outcome: 'refused', reason, claimedBy: reason === 'claimed' ? claimedBy(locks[0]!, ask) : undefined };
    }
    const needed = locks.filter((lock) => !lock.liveHold(attempt) && entryToken(lock, ask) === undefined);
    for (const lock of locks) {
      const waiter = lock.queue.of(attempt);
      if (!waiter) continue;
      if (!lock.queue.at(waiter.place)) lock.freed = true;
      // It was passed over, and listens or asks by itself.
      else if (ask.fair && (locks.length > 1 || needed.includes(lock))) {
        lock.queue.head = Math.min(lock.queue.head, waiter.place);
      }
    }
    const [busy] = needed.filter((lock) => !this.#hasTurn(lock, ask));
    if (busy) return this.#wait(locks, busy, needed, ask);
    const holds = locks.map((lock) => this.#take(lock, ask, needed.includes(lock) ? undefined : entryToken(lock, ask)));
    const { now, jobs } = locks[0]!;
    const run = ask.claim && jobs.get(ask.claim.job)?.run;
    for (const lock of locks) lock.queue.sweep();
    return {
      outcome: 'granted',
      fencingTokens: holds.map(({ token }) => token),
      remainingMs: Math.min(...holds.map(({ deadline }) => deadline - now)),
      serverTimeMs: now,
      ...(run?.attempt === attempt && { fireMs: run.fire }),
    };
  }

  /** Gives back a hold or a place in the queue; a hold is kept, parked, until `holdAtLeastMs` after its grant. */
  release({ key, attempt, holdAtLeastMs, job, runOutcome, unanswered }: ReleaseRequest): ReleaseReply {
    this.#readClock();
    const wasThere = this.lock(key).holds.has(attempt);
    const lock = this.#swept(key);
    const hold = lock.holds.get(attempt);
    const place = lock.queue.of(attempt)?.place;
    const wasFirst = place !== undefined && place <= lock.queue.head;
    let outcome: ReleaseReply['outcome'] = wasThere ? 'expired' : 'unknown';
    if (hold?.token) {
      outcome = 'released';
      lock.end(attempt);
      const deadline = Math.min(hold.since, lock.now) + holdAtLeastMs;
      const parked = { ...hold, deadline, lease: deadline - lock.now, token: 0, holder: '' };
      if (deadline > lock.now) lock.holds.set(attempt, parked);
    } else if (place !== undefined) outcome = 'cancelled';
    else if (lock.wasRevoked(attempt)) outcome = 'revoked';
    else if (hold || lock.wasReleased(attempt)) outcome = 'again';
    if (runOutcome && (outcome === 'released' || runOutcome === 'void')) {
      endRun(lock, { job, attempt, outcome: runOutcome, keepMs: this.keepMs });
    }
    lock.queue.leave(attempt);
    remember(lock.released, attempt);
    if (unanswered) lock.rememberLate(attempt);
    this.#handOver.serve(lock);
    if (outcome === 'cancelled' && wasFirst) this.#handOver.wakeHead(lock);
    lock.queue.sweep();
    return { outcome, holds: lock.holds.size, lastToken: lock.token };
  }

  renew({ key, attempt, fencingToken, leaseMs, mode }: Renewal): RenewReply {
    this.#readClock();
    const lock = this.#swept(key);
    const hold = lock.liveHold(attempt, fencingToken);
    if (hold && mode === 'read') makeRead(lock, hold);
    if (hold) lock.stretch(hold, leaseMs);
    if (lock.freed) this.#handOver.serve(lock);
    if (hold) lock.queue.sweep();
    return hold ? { outcome: 'renewed', remainingMs: hold.deadline - lock.now } : lost(lock, attempt);
  }

  downgrade({ key, attempt, fencingToken }: HoldRef): { readonly outcome: 'downgraded' } | LostReply {
    this.#readClock();
    const lock = this.#swept(key);
    const hold = lock.liveHold(attempt, fencingToken);
    if (hold) makeRead(lock, hold);
    if (lock.freed) this.#handOver.serve(lock);
    return hold ? { outcome: 'downgraded' } : lost(lock, attempt);
  }

  /**
   * Ends all holds with tokens up to `seenToken`, and tells the holders; `command` identifies it, should it come again.
   * Gives how many were ended.
   */
  forceRelease(
    key: string,
    command: string,
    seenToken = Infinity,
  ): { readonly outcome: 'revoked' | 'again'; readonly holds: number } {
    this.#readClock();
    const lock = this.#swept(key);
    const isAgain = lock.wasRevoked(command);
    const seen = [...lock.holds].filter(([, { token, since }]) => (token || since * 1_000) <= seenToken);
    const ended = isAgain ? [] : seen.map(([attempt]) => attempt).toSorted();
    for (const attempt of ended.filter((one) => lock.liveHold(one))) {
      remember(lock.released, attempt);
      remember(lock.revoked, attempt);
      lock.rememberLate(attempt);
      this.tell(attempt, { kind: 'revoked' });
    }
    for (const attempt of ended) lock.end(attempt);
    if (ended.length > 0) remember(lock.revoked, command);
    if (lock.freed) this.#handOver.serve(lock);
    return { outcome: isAgain ? 'again' : 'revoked', holds: ended.length };
  }

  /** The lock at this time: what is over has ended. */
  #swept(key: string): MemoryLock {
    const lock = this.lock(key);
    lock.sweep(this.#micros);
    return lock;
  }

  #readClock(): void {
    this.#micros = this.clock();
  }

  get #now(): number {
    return Math.floor(this.#micros / 1_000);
  }

  #wait(locks: readonly MemoryLock[], busy: MemoryLock, needed: readonly MemoryLock[], ask: Ask): AcquireReply {
    const { attempt } = ask;
    for (const [i, lock] of locks.entries()) {
      const isPast = i > locks.indexOf(busy);
      if (isPast) lock.leave(attempt);
      else if (ask.waiterLeaseMs && (needed.includes(lock) || lock.queue.of(attempt))) lock.queue.join(ask);
      if (isPast ? lock.freed : !ask.fair || lock.freed) this.#handOver.serve(lock, isPast ? undefined : attempt);
    }
    for (const lock of locks) lock.queue.sweep();
    return busyReply(busy, attempt);
  }

  #hasTurn(lock: MemoryLock, ask: Ask): boolean {
    if (!this.excludes) return true;
    if (!ask.fair) return admits(lock, ask);
    return this.#handOver.serve(lock, ask.attempt) || (lock.queue.isServed && admits(lock, ask));
  }

  #take(lock: MemoryLock, ask: Ask, ownerToken?: number): Hold {
    const held = lock.liveHold(ask.attempt);
    if (held) lock.stretch(held, ask.leaseMs);
    else {
      lock.leave(ask.attempt);
      this.#handOver.grant(lock, ask, ask.leaseMs, ownerToken);
      startRun(lock, ask, this.keepMs);
    }
    if (!held || lock.freed) this.#handOver.serve(lock);
    return lock.holds.get(ask.attempt)!;
  }
}

/** What a renewal says of a hold. */
type Renewal = Pick<RenewRequest, 'key' | 'attempt' | 'fencingToken' | 'leaseMs' | 'mode'>;

/** A command came too late; at which time of the server. */
export interface LateReply {
  readonly outcome: 'refused';
  readonly reason: 'late';
  readonly micros: number;
}

const lost = (lock: MemoryLock, attempt: string): LostReply => ({
  outcome: 'lost',
  lastToken: lock.token,
  revoked: lock.wasRevoked(attempt),
});
