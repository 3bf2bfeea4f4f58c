import { type LockHistoryEntry } from '../../core/history/history-entry.js';
import { instanceText, workText } from './lock-text.js';
import { type Table } from './table.js';
import { counted, durationText, shown, timeText } from './text.js';

/** The events of locks, one a line. */
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
  return `${verb} ${durationText(ms)}`;
}

function reasonText({ event, reason = '', by, count = 0 }: LockHistoryEntry): string {
  if (event === 'forced') return shown(by === undefined ? '' : `by ${by}`);
  if (event === 'waited') return shown(reason === '' ? '' : `held by ${reason}`);
  return event === 'dropped' ? counted(count, 'entry', 'entries') : shown(reason);
}
