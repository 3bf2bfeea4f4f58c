import { TOKENS_OF_A_WRITER, type WakeUp } from '../../../lib/core/store/lock-store.js';
import { type MemoryLock } from './memory-lock.js';
import { type ReceivedRequest, type Waiter } from './memory-queue.js';
import { admits, exceeds, shareEntry } from './rules.js';

/** Sends a wake-up to the client of an attempt; returns false when nobody listens there. */
export type Tell = (attempt: string, wakeUp: WakeUp) => boolean;

/** Whether it is granted only when it sends its request in its turn: for several locks, or for a fire. */
const isGrantedOnRequest = ({ keys, claim }: ReceivedRequest): boolean => keys.length > 1 || claim !== undefined;

/** How many waiters one command serves, and how many places it looks at, where that is limited. */
const MOST_GRANTS = 64;
const MOST_PLACES = 256;
/** How many places a look for unfair waiters goes through. */
const LOOKED_AT = 16;

/** The client of an attempt. */
export const clientOf = (attempt: string): string => attempt.split('.')[0]!;

/** Grants locks, and serves and wakes their waiters. */
export class HandOver {
  constructor(
    private readonly tell: Tell,
    /** The least value of the next fencing token: the microseconds since the epoch. */
    private readonly leastToken: () => number,
    /** Whether a command is kept short, as each script is. */
    private readonly isShort: () => boolean,
  ) {}

  /** Grants with the token of the owner, or with a new one. */
  grant(lock: MemoryLock, request: ReceivedRequest, lease: number, token = this.#nextToken(lock)): void {
    const { owner, mode, attempt, holder, permits, take = 1 } = request;
    lock.writes.add();
    lock.token = Math.max(lock.token, token);
    const hold = { owner, mode, take, token, lease, holder, since: lock.now, deadline: lock.now + lease, entry: token };
    lock.holds.set(attempt, hold);
    lock.bounds.include(hold);
    if (mode === 'write') lock.writer = request;
    else {
      shareEntry(lock, hold);
      lock.limit = permits;
    }
  }

  /** Serves the queue from its head; returns true when it is the turn of `me`, whose request this is. */
  serve(lock: MemoryLock, me?: string): boolean {
    const { queue } = lock;
    const news = lock.freed;
    lock.freed = false;
    let [grants, places] = [0, 0];
    while (!queue.isServed) {
      places += 1;
      lock.unserved = this.isShort() && places > MOST_PLACES;
      if (lock.unserved) return false;
      const waiter = queue.at(queue.head);
      if (waiter && exceeds(lock, waiter)) {
        // Its request is refused then.
        this.#wake(waiter);
        queue.goOn(true);
      } else if (waiter) {
        if (!admits(lock, waiter)) return false;
        if (waiter.attempt === me) return true;
        const mustAsk = !waiter.fair || isGrantedOnRequest(waiter);
        if (mustAsk && queue.head === lock.told && !news) return false;
        const isPushed = !mustAsk && (grants < MOST_GRANTS || !this.isShort());
        if (!isPushed && this.#call(lock, waiter)) {
          lock.told = queue.head;
          return false;
        }
        if (!waiter.fair) places += LOOKED_AT - 1;
        const isGranted = isPushed && this.#push(lock, waiter);
        if (isGranted) grants += 1;
        queue.goOn(!isGranted);
      } else queue.goOn(false);
    }
    return false;
  }

  /** Wakes the first waiter: it has to know when the lease of the holder may end. */
  wakeHead({ queue }: MemoryLock): void {
    const waiter = queue.at(queue.head);
    if (waiter) this.#wake(waiter);
  }

  /** Always greater than the last one, and than those that a writer before may have given to callers of its process. */
  #nextToken(lock: MemoryLock): number {
    const hasReaders = [...lock.holds.values()].some(({ mode }) => mode === 'read');
    return Math.max(lock.token + (hasReaders ? 1 : TOKENS_OF_A_WRITER), this.leastToken());
  }

  /** Grants to a waiter, and sends the grant with its wake-up; returns false when nobody listens for it. */
  #push(lock: MemoryLock, waiter: Waiter): boolean {
    const { attempt, leaseMs, waiterLeaseMs } = waiter;
    const remainingMs = Math.min(leaseMs, waiterLeaseMs);
    const fencingToken = this.#nextToken(lock);
    const heard = this.tell(attempt, { kind: 'granted', fencingToken, remainingMs, serverTimeMs: lock.now });
    if (!heard) return false;
    lock.queue.leave(attempt);
    this.grant(lock, waiter, remainingMs, fencingToken);
    return true;
  }

  /** Wakes a waiter that has to send its request again; returns false when nobody listens. */
  #call(lock: MemoryLock, waiter: Waiter): boolean {
    return waiter.fair ? this.#wake(waiter) : this.#wakeSome(lock);
  }

  #wake({ attempt }: Waiter): boolean {
    return this.tell(attempt, { kind: 'wake' });
  }

  /** Wakes two unfair waiters of different clients that the lock would admit; returns false when none of them listens. */
  #wakeSome(lock: MemoryLock): boolean {
    const { queue } = lock;
    const woken = new Set<string>();
    let nextHead: number | undefined;
    let next = queue.head;
    for (const place of queue.places.slice(0, LOOKED_AT)) {
      if (woken.size === 2) break;
      next = place + 1;
      const waiter = queue.at(place);
      if (!waiter) continue;
      const client = clientOf(waiter.attempt);
      const isCalled = !waiter.fair && !woken.has(client) && admits(lock, waiter);
      if (isCalled && this.#wake(waiter)) woken.add(client);
      if (!isCalled || woken.has(client)) nextHead ??= place;
    }
    queue.head = woken.size > 0 ? nextHead! : (nextHead ?? next) - 1;
    return woken.size > 0;
  }
}
