import { type LockMode } from '../../core/lock.errors.js';
import { type ReceivedRequest, MemoryQueue } from './memory-queue.js';

/** One hold of a lock. A parked one, which keeps it taken until `holdAtLeastMs` is over, has token 0. */
export interface Hold {
  readonly owner: string | undefined;
  readonly token: number;
  readonly since: number;
  /** The holder, as text for people; empty for a parked hold. */
  readonly holder: string;
  mode: LockMode;
  deadline: number;
  lease: number;
  /** Of a reader of a named owner: the token with which the next one re-enters. */
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

/** How many attempts a lock remembers whose commands may still arrive, and for how long. */
const LATE = 16;
const LATE_MICROS = 20_000_000;

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
  queue = new MemoryQueue();
  /** The last fencing token. */
  token = 0;
  readonly released: string[] = [];
  readonly revoked: string[] = [];
  /** By name, in the order in which their fires were claimed or run. */
  readonly jobs = new Map<string, Job>();
  /** The request that was granted for writing last. */
  writer: ReceivedRequest | undefined;
  micros = 0;
  /** The attempts that were given back while a command of theirs had no answer, and when, in microseconds. */
  late: { readonly attempt: string; readonly micros: number }[] = [];
  /** The time in microseconds of the last entry that a full `late` dropped: unknown attempts sent by then are refused. */
  floor = 0;
  /** Whether a hold or a place ended since the queue was served. */
  freed = false;
  /** The place of the first waiter when the command arrived, or of one that was woken since: it knows that it is first. */
  told = 0;

  get now(): number {
    return Math.floor(this.micros / 1_000);
  }

  /** Until when the lock is remembered, by its holds, waiters and jobs, and when it was used last. */
  keptUntil(keepMs: number): number {
    const holds = [...this.holds.values(), ...this.queue.waiters].map(({ deadline }) => deadline);
    const jobs = [...this.jobs.values()].map(({ until }) => until);
    return Math.max(this.now + keepMs, ...holds, ...jobs);
  }

  /** Ends the holds whose leases are over; no lease grows longer when the clock steps back. */
  sweep(micros: number): void {
    this.micros = micros;
    const { now } = this;
    this.freed = false;
    this.queue.setTime(now);
    this.told = this.queue.head;
    for (const [attempt, hold] of this.holds) {
      hold.deadline = Math.min(hold.deadline, now + hold.lease);
      if (hold.deadline <= now) this.end(attempt);
    }
  }

  end(attempt: string): void {
    this.holds.delete(attempt);
    this.freed = true;
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
  }

  leave(attempt: string): void {
    if (this.queue.leave(attempt)) this.freed = true;
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
