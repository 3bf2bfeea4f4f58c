import { type LockCaller } from '../../core/store/holder-text.js';
import { type LockHolder, type LockState, type LockWaiter } from '../../core/store/lock-state.js';
import { type Table } from './table.js';
import { counted, durationText, shown, timeText } from './text.js';

/** Where a caller is: `host:pid`. */
export const instanceText = ({ host, pid }: { readonly host: string; readonly pid: number }): string =>
  shown(host === '' ? '' : `${host}:${pid}`);

/** What a caller does: its method, and the label that the app gave to the call. */
export const workText = ({ where, note }: Pick<LockCaller, 'where' | 'note'>): string =>
  shown([where, note && `"${note}"`].filter(Boolean).join(' '));

const sinceText = (since: Date, now: number): string => `${timeText(since)} (${durationText(now - since.getTime())})`;

/** How long the lease still is. A holder without a token has released the lock, which stays taken for a while. */
const leaseText = ({ remainingMs, fencingToken }: LockHolder): string =>
  `${durationText(remainingMs)}${fencingToken === 0 ? ' (released)' : ''}`;

/** The locks, one a line: the first holder stands for the others. `now`: in milliseconds since the epoch. */
export const locksTable = (locks: readonly LockState[], now: number): Table => ({
  titles: ['KEY', 'MODE', 'HOLDER', 'METHOD', 'HELD SINCE', 'LEASE', 'WAITERS'],
  rows: locks.map(({ key, mode, holders, waiters, problem }) => {
    const [first] = holders;
    if (!first) return [shown(key), mode, problem ?? '-', '-', '-', '-', problem ? '-' : String(waiters)];
    const more = holders.length > 1 ? ` (+${holders.length - 1})` : '';
    return [
      shown(key),
      mode,
      instanceText(first) + more,
      workText(first),
      sinceText(first.since, now),
      leaseText(first),
      String(waiters),
    ];
  }),
});

export const holdersTable = (holders: readonly LockHolder[], now: number): Table => ({
  titles: ['HOLDER', 'METHOD', 'MODE', 'HELD SINCE', 'LEASE', 'TOKEN', 'OWNER'],
  rows: holders.map((holder) => [
    instanceText(holder),
    workText(holder),
    holder.mode,
    sinceText(holder.since, now),
    leaseText(holder),
    String(holder.fencingToken),
    shown(holder.owner === holder.attempt ? '' : holder.owner),
  ]),
});

export const queueTable = (queue: readonly LockWaiter[], now: number): Table => ({
  titles: ['PLACE', 'WAITER', 'METHOD', 'MODE', 'WAITS SINCE', 'GIVES UP'],
  rows: queue.map((waiter) => [
    String(waiter.place),
    instanceText(waiter),
    workText(waiter),
    waiter.mode,
    sinceText(waiter.since, now),
    waiter.until === null ? '-' : `in ${durationText(waiter.until.getTime() - now)}`,
  ]),
});

/** One line about a lock: `read, 3 holders, 3 of 5 permits taken, 1 waiter`. */
export const summaryOf = ({ mode, holders, permits, waiters, problem }: LockState): string =>
  problem ??
  [
    mode,
    ...(mode === 'free' ? [] : [counted(holders.length, 'holder')]),
    ...(permits ? [`${permits.used} of ${counted(permits.allowed, 'permit')} taken`] : []),
    counted(waiters, 'waiter'),
  ].join(', ');
