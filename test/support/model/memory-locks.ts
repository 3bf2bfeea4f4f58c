import {
  type AcquireReply,
  type AdoptReply,
  type AdoptRequest,
  type HoldRef,
  type LostReply,
  type ReleaseReply,
  type ReleaseRequest,
  type RenewReply,
} from '../../../lib/core/store/lock-store.js';
import { HandOver, type Tell } from './hand-over.js';
import { type Hold, MemoryLock, remember } from './memory-lock.js';
import { type ReceivedRenewal, type ReceivedRequest } from './memory-queue.js';
import { type Look } from './memory-state.js';
import { type MemorySettings, Requests } from './requests.js';
import { changePermits, revoke, type Revoked, seenHolds } from './operator-rules.js';
import { adopt, endOrPark, endRun, lostReply, makeRead, replaceToken } from './rules.js';
import { type BusyReply, type LateReply } from './rules.js';
import { Writes } from './writes.js';

/** For how long an unused lock is remembered, unless a command says otherwise. */
const KEEP_MS = 600_000;

/** How often unused locks are removed. */
const FORGET_EVERY_MS = 60_000;

/**
 * The locks of one server, with the semantics of the scripts in Redis. Operations are atomic: each runs to its end within
 * one turn. Random games test that the replies are the same (test/scripts/model.spec.ts).
 */
export class MemoryLocks {
  readonly settings: MemorySettings = { excludes: true, keepMs: KEEP_MS, isShort: false };
  readonly writes = new Writes();
  readonly #locks = new Map<string, MemoryLock>();
  readonly #handOver: HandOver;
  readonly #requests: Requests;
  /** The time of the command, read once: everything it does happens at that moment. */
  #micros = 0;
  #forgotAt = 0;

  /** `clock`: the server's clock, in microseconds since the epoch. */
  constructor(
    private readonly tell: Tell,
    private readonly clock: () => number,
    /** Tokens are at least as great, whatever the clock says. */
    leastToken = 0,
  ) {
    const nextMicros = (): number => Math.max(this.#micros, leastToken);
    this.#handOver = new HandOver(tell, nextMicros, () => this.settings.isShort);
    this.#requests = new Requests(this.#handOver, this.settings);
  }

  get keys(): readonly string[] {
    return [...this.#locks.keys()];
  }

  lock(key: string): MemoryLock {
    const known = this.#known(key) ?? new MemoryLock(this.writes);
    this.#locks.set(key, known);
    return known;
  }

  delete(key: string): void {
    this.#locks.delete(key);
  }

  /** Read-only lookup; never creates an entry. */
  look(key: string): Look {
    this.#begin();
    return { lock: this.#known(key) ?? new MemoryLock(), now: this.#now };
  }

  /** Removes unused locks now and then, as Redis does when their time to live is over. */
  forgetUnused(): void {
    this.#begin();
    if (Math.abs(this.#now - this.#forgotAt) < FORGET_EVERY_MS) return;
    this.#forgotAt = this.#now;
    for (const [key, lock] of this.#locks) {
      if ((lock.expiresAt ?? lock.now + this.settings.keepMs) < this.#now) this.#locks.delete(key);
    }
  }

  /** Grants all keys, or none; then the attempt waits for each up to the first busy one. */
  acquire(request: ReceivedRequest & { readonly sentMicros?: undefined }): AcquireReply;
  acquire(request: ReceivedRequest): AcquireReply | BusyReply | LateReply;
  acquire(request: ReceivedRequest): AcquireReply | BusyReply | LateReply {
    this.#begin();
    const queues = request.keys.map((key) => this.lock(key).queue);
    const before = queues.map(({ pointers }) => pointers);
    try {
      return this.#requests.acquire(
        request.keys.map((key) => this.#swept(key)),
        request,
      );
    } catch (error) {
      // The first write was refused.
      for (const [i, queue] of queues.entries()) queue.pointers = before[i]!;
      throw error;
    }
  }

  /** Ends a hold or a place in the queue; a hold stays parked until `holdAtLeastMs` after its grant. */
  release({ key, attempt, holdAtLeastMs, job, runOutcome, unanswered }: ReleaseRequest): ReleaseReply {
    this.#begin();
    const { keepMs } = this.settings;
    const wasThere = this.lock(key).holds.has(attempt);
    const lock = this.#swept(key);
    lock.writes.change();
    const hold = lock.holds.get(attempt);
    const place = lock.queue.of(attempt)?.place;
    const wasFirst = place !== undefined && place <= lock.queue.head;
    let outcome: ReleaseReply['outcome'] = wasThere ? 'expired' : 'unknown';
    if (hold?.token) {
      outcome = 'released';
      endOrPark(lock, { attempt, holdAtLeastMs, keepMs });
    } else if (place !== undefined) outcome = 'cancelled';
    else if (lock.wasRevoked(attempt)) outcome = 'revoked';
    else if (hold || lock.wasReleased(attempt)) outcome = 'again';
    if (runOutcome && (outcome === 'released' || runOutcome === 'void')) {
      endRun(lock, { job, attempt, outcome: runOutcome, keepMs });
    }
    lock.queue.leave(attempt);
    remember(lock.released, attempt);
    if (unanswered) lock.rememberLate(attempt);
    this.#handOver.serve(lock);
    if (outcome === 'cancelled' && wasFirst) this.#handOver.wakeHead(lock);
    lock.queue.sweep();
    lock.save(keepMs);
    return { outcome, holds: lock.holds.size, lastToken: lock.token };
  }

  renew({ key, attempt, fencingToken, leaseMs, mode }: ReceivedRenewal): RenewReply {
    const lock = this.#begun(key);
    const hold = lock.liveHold(attempt, fencingToken);
    if (!hold) return this.#lost(lock, attempt);
    lock.writes.change();
    if (mode === 'read') makeRead(lock, hold);
    return { outcome: 'renewed', remainingMs: this.#renewAndSave(lock, hold, leaseMs) };
  }

  downgrade({ key, attempt, fencingToken }: HoldRef): { readonly outcome: 'downgraded' } | LostReply {
    const lock = this.#begun(key);
    const hold = lock.liveHold(attempt, fencingToken);
    if (!hold) return this.#lost(lock, attempt);
    const isChanged = hold.mode === 'write';
    if (isChanged) lock.writes.change();
    makeRead(lock, hold);
    this.#handOverAndSave(lock, isChanged);
    return { outcome: 'downgraded' };
  }

  /** Makes a live hold that of another attempt; extends its lease. */
  adopt(request: AdoptRequest): AdoptReply {
    const { key, attempt, from, leaseMs } = request;
    const lock = this.#begun(key);
    const hold = adopt(lock, request);
    if (!hold) return this.#lost(lock, lock.wasRevoked(from) ? from : attempt);
    return { outcome: 'adopted', remainingMs: this.#renewAndSave(lock, hold, leaseMs) };
  }

  /** For a node of a quorum: replaces the token of a hold by the one that the quorum chose. */
  writeBack({ key, attempt, fencingToken }: HoldRef, newToken: number): { readonly outcome: 'written' } | LostReply {
    const lock = this.#begun(key);
    const hold = lock.liveHold(attempt, fencingToken) ?? lock.liveHold(attempt, newToken);
    if (!hold) return this.#lost(lock, attempt);
    lock.writes.change();
    replaceToken(lock, hold, newToken);
    this.#handOverAndSave(lock, true);
    return { outcome: 'written' };
  }

  /**
   * Ends all holds with tokens up to `seenToken`, and notifies the holders; a `command` that is sent again ends nothing.
   * Returns how many were ended.
   */
  forceRelease(key: string, command: string, seenToken = Infinity): Revoked {
    const lock = this.#begun(key);
    const isAgain = lock.wasRevoked(command);
    const ended = isAgain ? [] : seenHolds(lock, seenToken);
    lock.keep(this.settings.keepMs);
    revoke(lock, ended, this.tell);
    if (ended.length > 0) remember(lock.revoked, command);
    this.#handOverAndSave(lock, ended.length > 0);
    return { outcome: isAgain ? 'again' : 'revoked', holds: ended.length };
  }

  /** Sets how many permits there are, whatever the requests say; undefined: they say it again. */
  setPermits(key: string, permits: number | undefined): void {
    const lock = this.#begun(key);
    if (!lock.swept && permits === undefined && lock.permits === undefined) return;
    lock.keep(this.settings.keepMs);
    changePermits(lock, permits);
    this.#serveAndSave(lock);
  }

  #begin(): void {
    this.#micros = this.clock();
    this.writes.start();
  }

  get #now(): number {
    return Math.floor(this.#micros / 1_000);
  }

  /** The lock unless its time to live is over. */
  #known(key: string): MemoryLock | undefined {
    const lock = this.#locks.get(key);
    return lock && this.#now <= (lock.expiresAt ?? Infinity) ? lock : undefined;
  }

  #begun(key: string): MemoryLock {
    this.#begin();
    return this.#swept(key);
  }

  /** The lock, without the holds whose leases have ended. */
  #swept(key: string): MemoryLock {
    const lock = this.lock(key);
    lock.sweep(this.#micros);
    return lock;
  }

  /** Returns how much of the lease is left. */
  #renewAndSave(lock: MemoryLock, hold: Hold, leaseMs: number): number {
    // The deadline of the only hold is known to the millisecond.
    if (lock.holds.size === 1) lock.bounds.forget();
    lock.stretch(hold, leaseMs);
    this.#serveAndSave(lock);
    return hold.deadline - lock.now;
  }

  #serveAndSave(lock: MemoryLock): void {
    if (lock.freed) this.#handOver.serve(lock);
    lock.queue.sweep();
    lock.save(this.settings.keepMs);
  }

  #handOverAndSave(lock: MemoryLock, isChanged: boolean): void {
    if (lock.freed) this.#handOver.serve(lock);
    if (lock.swept || isChanged) lock.save(this.settings.keepMs);
  }

  #lost(lock: MemoryLock, attempt: string): LostReply {
    this.#handOverAndSave(lock, false);
    return lostReply(lock, attempt);
  }
}
