import { type LockHolder, type LockPermits, type LockState, type LockWaiter } from '../core/store/lock-state.js';

/** How many holders and waiters of a lock a list shows, and how many the page of that lock. */
export const SHOWN_IN_LIST = 20;
export const SHOWN_OF_ONE = 1_000;

/** A holder, as a page gets it. Times are milliseconds; the page counts them on from there. */
interface HolderView {
  readonly attempt: string;
  readonly instance: string;
  readonly where: string;
  readonly note: string;
  readonly mode: string;
  readonly since: number;
  readonly heldMs: number;
  readonly remainingMs: number;
  /** A text, since the page only shows it. */
  readonly token: string;
}

/** A waiter, as a page gets it. `leftMs`: until it gives up; null when that is not known. */
interface WaiterView {
  readonly attempt: string;
  readonly instance: string;
  readonly where: string;
  readonly note: string;
  readonly mode: string;
  readonly place: number;
  readonly waitedMs: number;
  readonly leftMs: number | null;
}

/** A lock, as a page gets it. */
export interface LockView {
  readonly key: string;
  readonly mode: string;
  readonly token: string;
  readonly waiters: number;
  /** Why it cannot be read; empty: it can. */
  readonly problem: string;
  readonly permits: LockPermits | null;
  /** How many holders there are, and how many have a place in the queue; what follows may be cut. */
  readonly holderCount: number;
  readonly queueCount: number;
  readonly holders: readonly HolderView[];
  readonly queue: readonly WaiterView[];
}

/** Prepares a lock for a page, with at most `shown` holders and waiters. `nowMs`: the time, since the epoch. */
export function lockView(state: LockState, shown: number, nowMs: number): LockView {
  const { key, mode, waiters, permits, holders, queue, fencingToken, problem = '' } = state;
  return {
    key,
    mode,
    token: String(fencingToken),
    waiters,
    problem,
    permits,
    holderCount: holders.length,
    queueCount: queue.length,
    holders: holders.slice(0, shown).map((holder) => holderView(holder, nowMs)),
    queue: queue.slice(0, shown).map((waiter) => waiterView(waiter, nowMs)),
  };
}

function holderView(holder: LockHolder, nowMs: number): HolderView {
  const { attempt, mode, where, note, since, remainingMs, fencingToken } = holder;
  return {
    attempt,
    instance: instanceOf(holder),
    where,
    note,
    mode,
    since: since.getTime(),
    heldMs: Math.max(0, nowMs - since.getTime()),
    remainingMs,
    token: String(fencingToken),
  };
}

function waiterView(waiter: LockWaiter, nowMs: number): WaiterView {
  const { attempt, mode, where, note, place, since, until } = waiter;
  return {
    attempt,
    instance: instanceOf(waiter),
    where,
    note,
    mode,
    place,
    waitedMs: Math.max(0, nowMs - since.getTime()),
    leftMs: until && Math.max(0, until.getTime() - nowMs),
  };
}

export const instanceOf = ({ host, pid }: { readonly host: string; readonly pid: number }): string => `${host}:${pid}`;
