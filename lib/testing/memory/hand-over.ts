import { type WakeUp } from '../../core/lock-store.js';
import { type Ask, type MemoryLock, type Waiter } from './memory-lock.js';
import { admits, shareEntry } from './rules.js';

/** Tells the client of an attempt; false when nobody listens there. */
export type Tell = (attempt: string, wakeUp: WakeUp) => boolean;

/** Granted only when it asks, in its turn: for several locks, or for a fire. */
const comesItself = ({ keys, claim }: Ask): boolean => keys.length > 1 || claim !== undefined;

/** The process of an attempt. */
export const clientOf = (attempt: string): string => attempt.split('.')[0]!;

/** How locks are granted, and how those who wait are served and told. */
export class HandOver {
  constructor(
    private readonly tell: Tell,
    /** Microseconds since the epoch, of which fencing tokens are made. */
    private readonly micros: () => number,
  ) {}

  /** With a token that it has already, or with a new one. */
  grant(lock: MemoryLock, ask: Ask, lease: number, token = this.#nextToken(lock)): void {
    const { owner, mode, attempt, holder } = ask;
    lock.token = Math.max(lock.token, token);
    const hold = { owner, mode, token, lease, holder, since: lock.now, deadline: lock.now + lease, entry: token };
    lock.holds.set(attempt, hold);
    if (mode === 'write') lock.writer = ask;
    else shareEntry(lock, hold);
  }

  /** Serves the queue from its head; true when it is the turn of `me`, who is asking. */
  serve(lock: MemoryLock, me?: string): boolean {
    const news = lock.freed;
    lock.freed = false;
    for (const waiter of lock.queue) {
      if (!lock.look(waiter)) continue;
      if (!admits(lock, waiter)) return false;
      if (waiter.attempt === me) return true;
      if (waiter.fair && !comesItself(waiter)) this.#push(lock, waiter);
      else if (waiter.attempt === lock.told && !news) return false;
      else if (waiter.fair ? this.#wake(lock, waiter) : this.#wakeSome(lock)) {
        lock.told = lock.queue[0]!.attempt;
        return false;
      }
    }
    return false;
  }

  /** Rises for ever: by one within a microsecond. */
  #nextToken(lock: MemoryLock): number {
    return Math.max(lock.token + 1, this.micros());
  }

  /** Grants to a waiter, and has its wake-up carry the grant; who does not listen any more leaves. */
  #push(lock: MemoryLock, waiter: Waiter): void {
    const { attempt, leaseMs, waiterLeaseMs } = waiter;
    const remainingMs = Math.min(leaseMs, waiterLeaseMs);
    const fencingToken = this.#nextToken(lock);
    lock.remove(attempt);
    const heard = this.tell(attempt, { kind: 'granted', fencingToken, remainingMs, serverTimeMs: lock.now });
    if (heard) this.grant(lock, waiter, remainingMs, fencingToken);
  }

  #wake(lock: MemoryLock, { attempt }: Waiter): boolean {
    const told = this.tell(attempt, { kind: 'wake' });
    if (!told) lock.remove(attempt);
    return told;
  }

  /** Two unfair waiters of different processes, of those that the lock would admit. */
  #wakeSome(lock: MemoryLock): boolean {
    const woken = new Set<string>();
    for (const waiter of lock.queue) {
      const client = clientOf(waiter.attempt);
      if (woken.size === 2) break;
      if (!lock.look(waiter) || waiter.fair || woken.has(client) || !admits(lock, waiter)) continue;
      if (this.#wake(lock, waiter)) woken.add(client);
    }
    return woken.size > 0;
  }
}
