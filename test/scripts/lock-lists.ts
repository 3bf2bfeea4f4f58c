import { type Ask, type Hold, type Run, type Waiter, isIn } from './commands.js';

/** One lock as two dumb lists, who holds it and who waits for it, and what is remembered. */
export class LockLists {
  readonly holds = new Map<string, Hold>();
  queue: Waiter[] = [];
  token = 0;
  readonly released: string[] = [];
  readonly forced: string[] = [];
  fires: number[] = [];
  run: Run | undefined;
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

  /** The holds that are not parked, of everybody or of one owner. */
  live(owner?: string): Hold[] {
    return [...this.holds.values()].filter((hold) => hold.token > 0 && (owner ?? hold.owner) === hold.owner);
  }

  liveHold(attempt: string, token?: string): Hold | undefined {
    const hold = this.holds.get(attempt);
    return hold && hold.token > 0 && (token ?? `${hold.token}`) === `${hold.token}` ? hold : undefined;
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

  wasReleased = (attempt: string): boolean => isIn(this.released, attempt);
  wasForced = (attempt: string): boolean => isIn(this.forced, attempt);
}
