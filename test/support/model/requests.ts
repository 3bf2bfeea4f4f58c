import { type AcquireReply } from '../../../lib/core/store/lock-store.js';
import { type HandOver } from './hand-over.js';
import { type Hold, type MemoryLock } from './memory-lock.js';
import { type ReceivedRequest } from './memory-queue.js';
import {
  admits,
  busyReply,
  type BusyReply,
  entryToken,
  knows,
  type LateReply,
  refusal,
  refusedReply,
  startRun,
} from './rules.js';

/** How a request stands at one lock. It needs the lock unless it holds it already, or enters with the token of its owner. */
interface Standing {
  readonly lock: MemoryLock;
  readonly ownerToken: number | undefined;
  readonly isNeeded: boolean;
}

/** The settings of all locks of a server. */
export interface MemorySettings {
  /** Whether holds exclude others; false for a fake, which grants every request. */
  excludes: boolean;
  /** For how long an unused lock is remembered, in milliseconds. */
  keepMs: number;
  /** Whether a command serves only so many waiters, and says that it must be sent again. */
  isShort: boolean;
}

/** The steps of a request at its locks: all are checked before any is granted (lib/redis/scripts/parts/request.ts). */
export class Requests {
  constructor(
    private readonly handOver: HandOver,
    private readonly settings: MemorySettings,
  ) {}

  /** Grants all locks, or none; then the attempt waits for each up to the first busy one. */
  acquire(locks: readonly MemoryLock[], request: ReceivedRequest): AcquireReply | BusyReply | LateReply {
    const isKnown = locks.some((lock) => knows(lock, request.attempt));
    const refusals = locks.map((lock) => ({ lock, reason: this.#refusal(lock, request, isKnown) }));
    const refused = refusals.find(({ reason }) => reason !== undefined);
    if (refused) {
      for (const lock of locks) this.#refuse(lock, request.attempt);
      return refusedReply(refused.reason!, { lock: refused.lock, request });
    }
    const all = locks.map((lock) => standing(lock, request));
    const [busy] = all.filter((one) => !this.#checkTurn(one, request));
    const reply = busy ? this.#wait(all, busy, request) : this.#grant(all, request);
    for (const lock of locks) {
      lock.queue.sweep();
      lock.save(this.settings.keepMs);
    }
    return reply;
  }

  /** A fake grants what takes more permits than there are, too. */
  #refusal(lock: MemoryLock, request: ReceivedRequest, isKnown: boolean): ReturnType<typeof refusal> {
    const reason = refusal(lock, request, isKnown);
    return reason === 'permits' && !this.settings.excludes ? undefined : reason;
  }

  #refuse(lock: MemoryLock, attempt: string): void {
    const left = lock.leave(attempt);
    if (lock.freed) this.handOver.serve(lock);
    if (lock.swept || left) lock.save(this.settings.keepMs);
    else if (lock.permits !== undefined) lock.keep(this.settings.keepMs);
  }

  /** Whether the lock can be granted now. A fair request first serves the waiters ahead of it. */
  #checkTurn({ lock, isNeeded }: Standing, request: ReceivedRequest): boolean {
    if (isNeeded || request.keys.length > 1) checkPlace(lock, request);
    if (!isNeeded || !this.settings.excludes) return true;
    if (!request.fair) return admits(lock, request);
    return this.handOver.serve(lock, request.attempt) || (lock.queue.isServed && admits(lock, request));
  }

  #grant(all: readonly Standing[], request: ReceivedRequest): AcquireReply {
    const holds = all.map((one) => this.#take(one, request));
    const { now, jobs } = all[0]!.lock;
    const run = request.claim && jobs.get(request.claim.job)?.run;
    return {
      outcome: 'granted',
      fencingTokens: holds.map(({ token }) => token),
      remainingMs: Math.min(...holds.map(({ deadline }) => deadline - now)),
      serverTimeMs: now,
      ...(run?.attempt === request.attempt && { fireMs: run.fire }),
    };
  }

  #take({ lock, ownerToken }: Standing, request: ReceivedRequest): Hold {
    const held = lock.liveHold(request.attempt);
    if (held) {
      lock.writes.change();
      lock.stretch(held, request.leaseMs);
      if (lock.freed) this.handOver.serve(lock);
      return held;
    }
    lock.leave(request.attempt);
    this.handOver.grant(lock, request, request.leaseMs, ownerToken);
    this.handOver.serve(lock);
    startRun(lock, request, this.settings.keepMs);
    return lock.holds.get(request.attempt)!;
  }

  #wait(all: readonly Standing[], busy: Standing, request: ReceivedRequest): BusyReply {
    const { attempt, waiterLeaseMs, fair } = request;
    const isFull = waiterLeaseMs > 0 && isFullFor(busy.lock, request);
    for (const [i, { lock, isNeeded }] of all.entries()) {
      const isPast = isFull || i > all.indexOf(busy);
      if (isPast) lock.leave(attempt);
      else if (waiterLeaseMs && (isNeeded || lock.queue.of(attempt))) lock.queue.join(request);
      if (isPast ? lock.freed : !fair || lock.freed) this.handOver.serve(lock, isPast ? undefined : attempt);
    }
    return { ...busyReply(busy.lock, attempt), isFull };
  }
}

/** Whether this attempt has no place, and as many others wait as it accepts. */
function isFullFor({ queue }: MemoryLock, { attempt, maxWaiters = 0 }: ReceivedRequest): boolean {
  if (maxWaiters === 0 || queue.of(attempt)) return false;
  return queue.liveUpTo(maxWaiters) === maxWaiters;
}

function standing(lock: MemoryLock, request: ReceivedRequest): Standing {
  const isHeld = lock.liveHold(request.attempt) !== undefined;
  const ownerToken = isHeld ? undefined : entryToken(lock, request);
  return { lock, ownerToken, isNeeded: !isHeld && ownerToken === undefined };
}

/** Drops a place whose waiter lease is over; who was passed over is served again now that it sends its request. */
function checkPlace(lock: MemoryLock, { attempt, fair }: ReceivedRequest): void {
  const { queue } = lock;
  const waiter = queue.of(attempt);
  if (!waiter) return;
  lock.writes.change();
  if (!queue.at(waiter.place)) lock.freed = true;
  else if (fair) queue.head = Math.min(queue.head, waiter.place);
}
