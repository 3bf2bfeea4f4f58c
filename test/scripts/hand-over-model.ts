import { type Ask, type Waiter, clientOf, comesItself } from './commands.js';
import { type LockLists } from './lock-lists.js';
import { admits, shareEntry } from './lock-rules.js';

/** How locks are granted, and how those who wait are served and told. */
export class HandOverModel {
  micros = 0;
  /** What was published since it was taken last, one `client message` each. */
  pushes: string[] = [];

  constructor(readonly hears: (client: string) => boolean) {}

  /** With the token of its owner, or with a new one. */
  grant(lock: LockLists, ask: Ask, lease: number, ownerToken?: number): void {
    const { owner, mode, attempt } = ask;
    const token = ownerToken ?? Math.max(lock.token + 1, this.micros);
    lock.token = Math.max(lock.token, token);
    const hold = { owner, mode, token, lease, since: lock.now, deadline: lock.now + lease, entry: token };
    lock.holds.set(attempt, hold);
    if (mode === 'write') lock.writer = ask;
    else shareEntry(lock, hold);
  }

  /** Serves the queue from its head; true when it is the turn of `me`. */
  serve(lock: LockLists, me?: string): boolean {
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

  tell(attempt: string, message: string): boolean {
    const client = clientOf(attempt);
    if (this.hears(client)) this.pushes.push(`${client} ${message}`);
    return this.hears(client);
  }

  #push(lock: LockLists, waiter: Waiter): void {
    const { attempt, leaseMs, waiterLeaseMs } = waiter;
    const lease = Math.min(leaseMs, waiterLeaseMs);
    const token = Math.max(lock.token + 1, this.micros);
    lock.remove(attempt);
    if (this.tell(attempt, `granted ${attempt} ${token} ${lock.now} ${lease}`)) this.grant(lock, waiter, lease);
  }

  #wake(lock: LockLists, { attempt }: Waiter): boolean {
    const told = this.tell(attempt, `wake ${attempt}`);
    if (!told) lock.remove(attempt);
    return told;
  }

  /** Two unfair waiters of different clients, of those that the lock would admit. */
  #wakeSome(lock: LockLists): boolean {
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
