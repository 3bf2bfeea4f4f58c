import {
  type AcquireReply,
  type HoldRef,
  type LostReply,
  type ReleaseReply,
  type ReleaseRequest,
  type RenewReply,
} from '../../core/store/lock-store.js';
import { HandOver, type Tell } from './hand-over.js';
import { type Hold, MemoryLock, remember } from './memory-lock.js';
import { type ReceivedRenewal, type ReceivedRequest } from './memory-queue.js';
import { type Look } from './memory-state.js';
import {
  admits,
  busyReply,
  endRun,
  entryToken,
  knows,
  type LateReply,
  lostReply,
  makeRead,
  refusal,
  refusedReply,
  startRun,
} from './rules.js';

/** For how long an unused lock is remembered. */
const KEEP_MS = 600_000;

/** How often unused locks are removed. */
const FORGET_EVERY_MS = 60_000;

/**
 * The locks of one server, with the semantics of the scripts in Redis. Operations are atomic: each runs to its end within
 * one turn. Random games test that the replies are the same (test/scripts/model.spec.ts).
 */
export class MemoryLocks {
  /** Whether holds exclude others; false for a fake, which grants every request. */
  excludes = true;
  readonly #locks = new Map<string, MemoryLock>();
  readonly #handOver: HandOver;
  /** The time of the command, read once: everything it does happens at that moment. */
  #micros = 0;
  #forgotAt = 0;

  /** `clock`: the server's clock, in microseconds since the epoch. */
  constructor(
    private readonly tell: Tell,
    private readonly clock: () => number,
    /** Tokens are at least as great, whatever the clock says. */
    leastToken = 0,
    private readonly keepMs = KEEP_MS,
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

  /** Read-only lookup; never creates an entry. */
  look(key: string): Look {
    this.#readClock();
    return { lock: this.#locks.get(key) ?? new MemoryLock(), now: this.#now };
  }

  /** Removes unused locks now and then, as Redis does when their time to live is over. */
  forgetUnused(): void {
    this.#readClock();
    if (Math.abs(this.#now - this.#forgotAt) < FORGET_EVERY_MS) return;
    this.#forgotAt = this.#now;
    for (const [key, lock] of this.#locks) if (lock.keptUntil(this.keepMs) <= this.#now) this.#locks.delete(key);
  }

  /** Grants all keys, or none; then the attempt waits for each up to the first busy one. */
  acquire(request: ReceivedRequest & { readonly sentMicros?: undefined }): AcquireReply;
  acquire(request: ReceivedRequest): AcquireReply | LateReply;
  acquire(request: ReceivedRequest): AcquireReply | LateReply {
    this.#readClock();
    const { attempt } = request;
    const locks = request.keys.map((key) => this.#swept(key));
    const isKnown = locks.some((lock) => knows(lock, attempt));
    const reason = locks.map((lock) => refusal(lock, request, isKnown)).find((found) => found !== undefined);
    if (reason) {
      for (const lock of locks) lock.leave(attempt);
      for (const lock of locks) if (lock.freed) this.#handOver.serve(lock);
      return refusedReply(reason, { lock: locks[0]!, request, micros: this.#micros });
    }
    const needed = locks.filter((lock) => !lock.liveHold(attempt) && entryToken(lock, request) === undefined);
    for (const lock of locks) {
      const waiter = lock.queue.of(attempt);
      if (!waiter) continue;
      if (!lock.queue.at(waiter.place)) lock.freed = true;
      // It was passed over, and is served again now that it sends its request.
      else if (request.fair && (locks.length > 1 || needed.includes(lock))) {
        lock.queue.head = Math.min(lock.queue.head, waiter.place);
      }
    }
    const [busy] = needed.filter((lock) => !this.#hasTurn(lock, request));
    if (busy) return this.#wait(locks, busy, needed, request);
    const holds = locks.map((lock) =>
      this.#take(lock, request, needed.includes(lock) ? undefined : entryToken(lock, request)),
    );
    const { now, jobs } = locks[0]!;
    const run = request.claim && jobs.get(request.claim.job)?.run;
    for (const lock of locks) lock.queue.sweep();
    return {
      outcome: 'granted',
      fencingTokens: holds.map(({ token }) => token),
      remainingMs: Math.min(...holds.map(({ deadline }) => deadline - now)),
      serverTimeMs: now,
      ...(run?.attempt === attempt && { fireMs: run.fire }),
    };
  }

  /** Ends a hold or a place in the queue; a hold stays parked until `holdAtLeastMs` after its grant. */
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

  renew({ key, attempt, fencingToken, leaseMs, mode }: ReceivedRenewal): RenewReply {
    this.#readClock();
    const lock = this.#swept(key);
    const hold = lock.liveHold(attempt, fencingToken);
    if (hold && mode === 'read') makeRead(lock, hold);
    if (hold) lock.stretch(hold, leaseMs);
    if (lock.freed) this.#handOver.serve(lock);
    if (hold) lock.queue.sweep();
    return hold ? { outcome: 'renewed', remainingMs: hold.deadline - lock.now } : lostReply(lock, attempt);
  }

  downgrade({ key, attempt, fencingToken }: HoldRef): { readonly outcome: 'downgraded' } | LostReply {
    this.#readClock();
    const lock = this.#swept(key);
    const hold = lock.liveHold(attempt, fencingToken);
    if (hold) makeRead(lock, hold);
    if (lock.freed) this.#handOver.serve(lock);
    return hold ? { outcome: 'downgraded' } : lostReply(lock, attempt);
  }

  /**
   * Ends all holds with tokens up to `seenToken`, and notifies the holders; a `command` that is sent again ends nothing.
   * Returns how many were ended.
   */
  forceRelease(
    key: string,
    command: string,
    seenToken = Infinity,
  ): { readonly outcome: 'revoked' | 'again'; readonly holds: number } {
    this.#readClock();
    const lock = this.#swept(key);
    const isAgain = lock.wasRevoked(command);
    const granted = (hold: Hold): number => hold.token || Math.min(hold.since * 1_000, lock.token);
    const seen = [...lock.holds].filter(([, hold]) => granted(hold) <= seenToken);
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

  /** The lock, without the holds whose leases have ended. */
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

  #wait(
    locks: readonly MemoryLock[],
    busy: MemoryLock,
    needed: readonly MemoryLock[],
    request: ReceivedRequest,
  ): AcquireReply {
    const { attempt } = request;
    for (const [i, lock] of locks.entries()) {
      const isPast = i > locks.indexOf(busy);
      if (isPast) lock.leave(attempt);
      else if (request.waiterLeaseMs && (needed.includes(lock) || lock.queue.of(attempt))) lock.queue.join(request);
      if (isPast ? lock.freed : !request.fair || lock.freed) this.#handOver.serve(lock, isPast ? undefined : attempt);
    }
    for (const lock of locks) lock.queue.sweep();
    return busyReply(busy, attempt);
  }

  #hasTurn(lock: MemoryLock, request: ReceivedRequest): boolean {
    if (!this.excludes) return true;
    if (!request.fair) return admits(lock, request);
    return this.#handOver.serve(lock, request.attempt) || (lock.queue.isServed && admits(lock, request));
  }

  #take(lock: MemoryLock, request: ReceivedRequest, ownerToken?: number): Hold {
    const held = lock.liveHold(request.attempt);
    if (held) lock.stretch(held, request.leaseMs);
    else {
      lock.leave(request.attempt);
      this.#handOver.grant(lock, request, request.leaseMs, ownerToken);
      startRun(lock, request, this.keepMs);
    }
    if (!held || lock.freed) this.#handOver.serve(lock);
    return lock.holds.get(request.attempt)!;
  }
}
