import { type LockHistoryEntry } from '../../core/history/history-entry.js';
import { LockError } from '../../core/lock.errors.js';
import { printable, UNPRINTABLE } from '../../core/printable.js';
import { messageOf } from '../../core/reporter.js';
import { type LockCaller } from '../../core/store/holder-text.js';
import { type LockHolder, type LockState, readAt } from '../../core/store/lock-state.js';
import { type Table } from './terminal.js';

/** The advice of the module names its options; these are the options of the tool. */
const INSTEAD: readonly (readonly [of: RegExp, instead: string])[] = [
  [/`connection: \{ cluster: \[\.\.\.\] \}`/g, '`--cluster`'],
  [/`connection: \{ sentinels: \[\.\.\.\], name \}`/g, '`--sentinel` and `--sentinel-name`'],
  [/give one in `connection`/g, 'set REDIS_LOCK_PASSWORD'],
  [/Check user and password of `connection`/g, 'Check --username and REDIS_LOCK_PASSWORD'],
  [/leave out `cluster`/g, 'use `--url`'],
  [/give another `db` in `connection`/g, 'give another one in `--url`'],
  [/Give the locks their own `keyPrefix`/gi, 'Give the locks of the app their own `keyPrefix`'],
  [/Redis could not serve the lock "(?:doctor|[^"]*\*)": /g, ''],
];

export const inWordsOfTool = (text: string): string =>
  INSTEAD.reduce((result, [of, instead]) => result.replace(of, instead), text);

export const errorText = (error: unknown): string =>
  printable(error instanceof LockError ? inWordsOfTool(messageOf(error)) : messageOf(error));

const escaped = (char: string): string =>
  [...Array(char.length).keys()].map((i) => `\\u${char.charCodeAt(i).toString(16).padStart(4, '0')}`).join('');

/** One line of JSON that no terminal acts on; it parses to the value as it is. */
export const jsonLine = (value: unknown): string => `${JSON.stringify(value).replace(UNPRINTABLE, escaped)}\n`;

/** A duration as text: its two largest units. */
export function shortDuration(ms: number): string {
  const seconds = Math.max(ms, 0) / 1_000;
  if (seconds < 10) return `${(Math.floor(seconds * 10) / 10).toFixed(1)}s`;
  const whole = Math.floor(seconds);
  const units: [name: string, count: number][] = [
    ['d', Math.floor(whole / 86_400)],
    ['h', Math.floor(whole / 3_600) % 24],
    ['m', Math.floor(whole / 60) % 60],
    ['s', whole % 60],
  ];
  const first = units.findIndex(([, count]) => count > 0);
  return units
    .slice(first, first + 2)
    .map(([name, count]) => `${count}${name}`)
    .join(' ');
}

/** A moment as text, in UTC: `2026-03-01 03:12:45Z`. */
export const timeText = (date: Date): string =>
  Number.isNaN(date.getTime()) ? '-' : `${date.toISOString().slice(0, 19).replace('T', ' ')}Z`;

/** A key or another foreign text, for a table: `-` if it is empty. */
export const shown = (text: string): string => (text === '' ? '-' : printable(text));

export const counted = (count: number, one: string, many = `${one}s`): string => `${count} ${count === 1 ? one : many}`;

export const instanceText = ({ host, pid }: { readonly host: string; readonly pid: number }): string =>
  shown(host === '' ? '' : `${host}:${pid}`);

export const workText = ({ where, note }: Pick<LockCaller, 'where' | 'note'>): string =>
  shown([where, note && `"${note}"`].filter(Boolean).join(' '));

/** `now`: by the clock that has set `since`. */
const sinceText = (since: Date, now: number): string => `${timeText(since)} (${shortDuration(now - since.getTime())})`;

/** The rest of the lease. A holder without a token has released the lock, which stays taken for a while. */
const leaseText = ({ remainingMs, fencingToken }: LockHolder): string =>
  `${shortDuration(remainingMs)}${fencingToken === 0 ? ' (released)' : ''}`;

/** The locks, one a line: only the first holder is shown. */
export const locksTable = (locks: readonly LockState[]): Table => ({
  titles: ['KEY', 'MODE', 'HOLDER', 'METHOD', 'HELD SINCE', 'LEASE', 'WAITERS'],
  rows: locks.map((lock) => {
    const { key, mode, holders, waiters, problem } = lock;
    const [first] = holders;
    if (!first) return [shown(key), mode, problem ?? '-', '-', '-', '-', problem ? '-' : String(waiters)];
    const more = holders.length > 1 ? ` (+${holders.length - 1})` : '';
    return [
      shown(key),
      mode,
      instanceText(first) + more,
      workText(first),
      sinceText(first.since, readAt(lock)),
      leaseText(first),
      String(waiters),
    ];
  }),
});

export const holdersTable = (lock: LockState): Table => ({
  titles: ['HOLDER', 'METHOD', 'MODE', 'HELD SINCE', 'LEASE', 'TOKEN', 'OWNER'],
  rows: lock.holders.map((holder) => [
    instanceText(holder),
    workText(holder),
    holder.mode,
    sinceText(holder.since, readAt(lock)),
    leaseText(holder),
    String(holder.fencingToken),
    shown(holder.owner === holder.attempt ? '' : holder.owner),
  ]),
});

export const queueTable = (lock: LockState): Table => ({
  titles: ['PLACE', 'WAITER', 'METHOD', 'MODE', 'WAITS SINCE', 'GIVES UP'],
  rows: lock.queue.map((waiter) => [
    String(waiter.place),
    instanceText(waiter),
    workText(waiter),
    waiter.mode,
    sinceText(waiter.since, readAt(lock)),
    waiter.until === null ? '-' : `in ${shortDuration(waiter.until.getTime() - readAt(lock))}`,
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

export const eventsTable = (entries: readonly LockHistoryEntry[]): Table => ({
  titles: ['TIME', 'EVENT', 'KEY', 'INSTANCE', 'METHOD', 'HOW LONG', 'REASON', 'TOKEN'],
  rows: entries.map((entry) => [
    timeText(entry.at),
    entry.event,
    shown(entry.key),
    instanceText(entry),
    workText({ where: entry.where ?? '', note: entry.note ?? '' }),
    howLong(entry),
    reasonText(entry),
    entry.fencingToken ? String(entry.fencingToken) : '-',
  ]),
});

function howLong({ event, ms }: LockHistoryEntry): string {
  if (ms === undefined) return '-';
  const verb = event === 'released' || event === 'lost' ? 'held' : 'waited';
  return `${verb} ${shortDuration(ms)}`;
}

function reasonText({ event, reason = '', by, count = 0 }: LockHistoryEntry): string {
  if (event === 'forced') return shown(by === undefined ? '' : `by ${by}`);
  if (event === 'waited') return shown(reason === '' ? '' : `held by ${reason}`);
  return event === 'dropped' ? counted(count, 'entry', 'entries') : shown(reason);
}
