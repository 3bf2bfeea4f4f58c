import { type AcquireRequest, type FireClaim } from '../../core/lock-store.js';
import { type LockMode } from '../../core/lock.errors.js';

/** An acquire as it reaches the server: with how old the call is, since clocks of clients mean nothing there. */
export interface Ask extends Omit<AcquireRequest, 'claim'> {
  readonly claim?: (Omit<FireClaim, 'calledAt'> & { readonly ageMs: number }) | undefined;
}

/** One hold of a lock. A parked one, which keeps it taken until `holdAtLeastMs` is over, has token 0. */
export interface Hold {
  readonly owner: string | undefined;
  readonly token: number;
  readonly since: number;
  /** Who holds it, for people; nobody any more when it is parked. */
  readonly holder: string;
  mode: LockMode;
  deadline: number;
  lease: number;
  /** Readers of a named owner: with which token the next one enters. */
  entry: number;
}

export interface Waiter extends Ask {
  deadline: number;
}

/** The last run of a job; `ended` 0 and no outcome: it goes on, or was lost. */
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

/** How many attempts a lock remembers as released, or forced; a later acquire of them is refused. */
const REMEMBERED = 7;

/** Attempts are remembered by their end only. */
const fingerprint = (attempt: string): string => attempt.slice(-8);

/** Has an attempt stand among those that were released, or forced. */
export function remember(ring: string[], attempt: string): void {
  if (!ring.includes(fingerprint(attempt))) ring.push(fingerprint(attempt));
  if (ring.length > REMEMBERED) ring.shift();
}

/** One lock as two lists, who holds it and who waits for it, and what is remembered. */
export class MemoryLock {
  readonly holds = new Map<string, Hold>();
  queue: Waiter[] = [];
  /** The last fencing token. */
  token = 0;
  readonly released: string[] = [];
  readonly forced: string[] = [];
  /** By name; whose fire was claimed or run last comes last. */
  readonly jobs = new Map<string, Job>();
  /** Who was granted for writing last. */
  writer: Ask | undefined;
  now = 0;
  /** Something ended since the queue was served. */
  freed = false;
  /** The first waiter when the command came, or the one that was called since: it knows that it is first. */
  told: string | undefined;

  /** Ends what is over at this time; a clock that stepped back makes no lease longer. */
  sweep(now: number): void {
    this.now = now;
    this.freed = false;
    this.told = this.queue[0]?.attempt;
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

  waiter(attempt: string): Waiter | undefined {
    return this.queue.find((waiter) => waiter.attempt === attempt);
  }

  enqueue(ask: Ask): void {
    const waiter = { ...ask, deadline: this.now + ask.waiterLeaseMs };
    const place = this.queue.findIndex(({ attempt }) => attempt === ask.attempt);
    if (place < 0) this.queue.push(waiter);
    else this.queue[place] = waiter;
  }

  /** Makes a new queue, so that a loop over the old one is not disturbed. */
  remove(attempt: string): void {
    this.queue = this.queue.filter((waiter) => waiter.attempt !== attempt);
  }

  leave(attempt: string): void {
    if (this.waiter(attempt)) this.freed = true;
    this.remove(attempt);
  }

  /** Waiters are judged when somebody looks at them: is this one still there? */
  look(waiter: Waiter): boolean {
    waiter.deadline = Math.min(waiter.deadline, this.now + waiter.waiterLeaseMs);
    if (waiter.deadline <= this.now) this.remove(waiter.attempt);
    return waiter.deadline > this.now && this.queue.includes(waiter);
  }

  wasReleased(attempt: string): boolean {
    return this.released.includes(fingerprint(attempt));
  }

  wasForced(attempt: string): boolean {
    return this.forced.includes(fingerprint(attempt));
  }
}
