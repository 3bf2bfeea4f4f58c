import { type LockMode } from '../../../lib/core/lock.errors.js';
import { LeaseBounds } from './lease-bounds.js';
import { type ReceivedRequest, MemoryQueue } from './memory-queue.js';
import { Writes } from './writes.js';

/** One hold of a lock. A parked one, which keeps it taken until `holdAtLeastMs` is over, has token 0. */
export interface Hold {
  readonly owner: string | undefined;
  readonly since: number;
  /** How many permits it takes. */
  readonly take: number;
  /** The holder, as text for people; empty for a parked hold. */
  readonly holder: string;
  token: number;
  mode: LockMode;
  deadline: number;
  lease: number;
  /** The token with which the next one of its owner re-enters in this mode. */
  entry: number;
}

/** The last run of a job; while `ended` is 0 and there is no outcome, it is running or was lost. */
export interface Run {
  readonly fire: number;
  readonly attempt: string;
  readonly by: string;
  readonly started: number;
  ended: number;
  outcome: 'done' | 'failed' | undefined;
}

/** What is known of a job. */
export interface Job {
  fires: number[];
  run: Run | undefined;
  /** Until when it is remembered, at least. */
  until: number;
}

/** How many attempts a lock remembers as released, or revoked; a later acquire of them is refused. */
const REMEMBERED = 7;

/** For how long the permits are remembered that an operator has set. */
const PERMITS_KEPT_MS = 30 * 24 * 3_600_000;

/** How many attempts a lock remembers whose commands may still arrive, and for how long. */
const LATE = 16;
const LATE_MICROS = 20_000_000;

/** A packed lock has a token of 16 digits, and an attempt of at most so many characters. */
const LEAST_PACKED = 1e15;
const MAX_PACKED_ATTEMPT = 24;

/** Attempts are remembered by their end only. */
const fingerprint = (attempt: string): string => attempt.slice(-8);

/** Adds an attempt to those that were released, or revoked. */
export function remember(ring: string[], attempt: string): void {
  if (!ring.includes(fingerprint(attempt))) ring.push(fingerprint(attempt));
  if (ring.length > REMEMBERED) ring.shift();
}

/** One lock: its holds, its waiters, and what it remembers of attempts and jobs. */
export class MemoryLock {
  readonly holds = new Map<string, Hold>();
  readonly bounds = new LeaseBounds();
  queue: MemoryQueue;
  /** The last fencing token. */
  token = 0;
  readonly released: string[] = [];
  readonly revoked: string[] = [];
  /** By name, in the order in which their fires were claimed or run. */
  readonly jobs = new Map<string, Job>();
  /** The request that was granted for writing last. */
  writer: ReceivedRequest | undefined;
  /** How many permits there are, if an operator has set that; else each request says so. */
  permits: number | undefined;
  /** How many permits the reader counted that was granted last; 0: it counted none. */
  limit = 0;
  micros = 0;
  /** The attempts that were given back while a command of theirs had no answer, and when, in microseconds. */
  late: { readonly attempt: string; readonly micros: number }[] = [];
  /** The time in microseconds of the last entry that a full `late` dropped: unknown attempts sent by then are refused. */
  floor = 0;
  /** Whether a hold or a place ended since the queue was served. */
  freed = false;
  /** The place of the first waiter when the command arrived, or of one that was woken since: it knows that it is first. */
  told = 0;
  /** Whether serving the queue stopped before its end, because the command had done enough. */
  unserved = false;
  /** Whether a lease may have ended when the command arrived: the command must save then. */
  swept = false;
  /** The time in milliseconds after which Redis forgets the lock; undefined: nothing of it was saved. */
  expiresAt: number | undefined;

  constructor(readonly writes = new Writes()) {
    this.queue = new MemoryQueue(writes);
  }

  get now(): number {
    return Math.floor(this.micros / 1_000);
  }

  /** Saves what a command has changed, and for how long the lock is remembered. */
  save(keepMs: number): void {
    this.writes.add();
    if (this.holds.size === 0) {
      this.bounds.forget();
      this.writer = undefined;
    }
    if (this.taken === 0) this.limit = 0;
    this.queue.settle();
    this.#forgetLate();
    if (this.isPacked) this.narrowBounds();
    this.expiresAt = this.now + this.#timeToLive(keepMs);
  }

  /** Prolongs the time to live of a lock that was saved before. */
  keep(keepMs: number): void {
    this.writes.change();
    if (this.expiresAt !== undefined) this.expiresAt = this.now + this.#timeToLive(keepMs);
  }

  /** The last lease and `keepMs`, or longer for jobs and permits. */
  #timeToLive(keepMs: number): number {
    const held = this.holds.size > 0 ? this.bounds.latest - this.now : 0;
    const jobs = [...this.jobs.values()].map(({ until }) => until - this.now);
    const permits = this.permits === undefined ? 0 : PERMITS_KEPT_MS;
    return Math.max(keepMs + held, permits, ...jobs);
  }

  /** Whether Redis has the lock in one field, with exact bounds: it is free, or held once for writing without an owner. */
  get isPacked(): boolean {
    const { queue, jobs, revoked, late, token, holds } = this;
    const { first, tail } = queue.pointers;
    if (first <= tail || jobs.size > 0 || revoked.length > 0 || late.length > 0 || token < LEAST_PACKED) return false;
    if (this.permits !== undefined) return false;
    return holds.size === 0 || (holds.size === 1 && [...holds].every(([attempt, hold]) => this.#fits(attempt, hold)));
  }

  #fits(attempt: string, { mode, owner, token, since }: Hold): boolean {
    const isLatest = token === this.token && since === Math.floor(token / 1_000);
    return mode === 'write' && owner === undefined && isLatest && attempt.length <= MAX_PACKED_ATTEMPT;
  }

  /** Forgets the attempts that were given back when each command of theirs is too old to be carried out. */
  #forgetLate(): void {
    const newest = this.late.at(-1);
    if (!newest || this.micros - newest.micros < LATE_MICROS) return;
    this.late = [];
    this.floor = 0;
  }

  /** Ends the holds whose leases are over; no lease grows longer when the clock steps back. */
  sweep(micros: number): void {
    this.micros = micros;
    const { now } = this;
    this.freed = false;
    this.unserved = false;
    this.queue.setTime(now);
    this.told = this.queue.head;
    this.swept = this.holds.size > 0 && this.bounds.isDue(now);
    if (this.swept) this.writes.change();
    for (const [attempt, hold] of this.holds) {
      hold.deadline = Math.min(hold.deadline, now + hold.lease);
      if (hold.deadline <= now) this.end(attempt);
    }
    if (this.swept) this.narrowBounds();
  }

  narrowBounds(): void {
    this.bounds.forget();
    for (const hold of this.holds.values()) this.bounds.include(hold);
  }

  end(attempt: string): void {
    this.holds.delete(attempt);
    this.freed = true;
  }

  /** How many permits are taken. */
  get taken(): number {
    return [...this.holds.values()].reduce((sum, { mode, take }) => sum + (mode === 'read' ? take : 0), 0);
  }

  /** The holds of an owner that are not parked. */
  ofOwner(owner: string | undefined): Hold[] {
    return [...this.holds.values()].filter((hold) => hold.token > 0 && hold.owner === owner);
  }

  /** The hold of an attempt that is not parked; with a token, only if it has that one. */
  liveHold(attempt: string, token?: number): Hold | undefined {
    const hold = this.holds.get(attempt);
    return hold && hold.token > 0 && (token ?? hold.token) === hold.token ? hold : undefined;
  }

  stretch(hold: Hold, leaseMs: number): void {
    hold.deadline = Math.max(hold.deadline, this.now + leaseMs);
    hold.lease = Math.max(leaseMs, hold.deadline - this.now);
    this.bounds.include(hold);
  }

  /** Returns true when there was a place to leave. */
  leave(attempt: string): boolean {
    const left = this.queue.leave(attempt);
    if (left) this.freed = true;
    return left;
  }

  wasReleased(attempt: string): boolean {
    return this.released.includes(fingerprint(attempt));
  }

  /** Remembers an attempt until its commands are too old for any caller. */
  rememberLate(attempt: string): void {
    if (this.isLate(attempt)) return;
    const known = this.late.filter(({ micros }) => this.micros - micros < LATE_MICROS);
    known.push({ attempt: fingerprint(attempt), micros: this.micros });
    if (known.length > LATE) this.floor = Math.max(this.floorNow, known.shift()!.micros);
    this.late = known;
  }

  /** 0 when the clock stepped back: otherwise every new attempt would be refused until it reaches the floor again. */
  get floorNow(): number {
    return this.floor > this.micros ? 0 : this.floor;
  }

  isLate(attempt: string): boolean {
    return this.late.some((one) => one.attempt === fingerprint(attempt));
  }

  wasRevoked(attempt: string): boolean {
    return this.revoked.includes(fingerprint(attempt));
  }
}
