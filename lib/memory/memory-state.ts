import { readHolderText, waitsUntil } from '../core/store/holder-text.js';
import { modeOf, permitsOf } from '../core/store/lock-state.js';
import { type LastRun, type LockHolder, type LockState, type LockWaiter } from '../core/store/lock-state.js';
import { type Hold, type MemoryLock } from './memory-lock.js';
import { type Waiter } from './memory-queue.js';

/** A lock at a moment, unchanged. */
export interface Look {
  readonly lock: MemoryLock;
  /** The server's time in milliseconds. */
  readonly now: number;
}

/** The reply of `inspect`; leaves out what has expired. */
export function stateOf(key: string, { lock, now }: Look): LockState {
  const all = [...lock.holds].map(([attempt, hold]) => holderOf(attempt, hold, now));
  const holders = all.filter(({ remainingMs }) => remainingMs > 0);
  const queue = lock.queue.waiters.filter(({ deadline }) => deadline > now).map((waiter, i) => waiterOf(waiter, i + 1));
  const permits = permitsOf(holders, lock.permits ?? lock.limit, lock.permits !== undefined);
  return { key, mode: modeOf(holders), holders, waiters: queue.length, queue, permits, fencingToken: lock.token };
}

const waiterOf = ({ attempt, owner = attempt, mode, take = 1, holder, since }: Waiter, place: number): LockWaiter => ({
  owner,
  attempt,
  mode,
  take,
  ...readHolderText(holder),
  place,
  since: new Date(since),
  until: waitsUntil(holder, since),
});

function holderOf(
  attempt: string,
  { owner = attempt, mode, take, holder, since, token, ...hold }: Hold,
  now: number,
): LockHolder {
  // More is left than was granted: the clock stepped back, and the next command shortens the lease.
  const remainingMs = Math.max(0, Math.min(hold.deadline - now, hold.lease));
  const at = { since: new Date(since), remainingMs, fencingToken: token };
  return { owner, attempt, mode, take, ...readHolderText(holder), ...at };
}

/** The last run of each job. */
export const runsOf = ({ lock, now }: Look): readonly LastRun[] =>
  [...lock.jobs].flatMap(([job, { run }]) => {
    if (!run) return [];
    const { fire, attempt, by, started, ended, outcome } = run;
    const hold = lock.liveHold(attempt);
    return {
      job,
      fire: new Date(fire),
      instance: by,
      attempt,
      started: new Date(started),
      ended: outcome ? new Date(ended) : null,
      outcome: outcome ?? (hold && hold.deadline > now ? 'running' : 'lost'),
    };
  });
