import { type LockHistoryEntry, type LockHistoryEvent } from '../core/history/history-entry.js';
import { instanceOf } from './lock-views.js';

/** An entry of the history, as a page gets it. What it does not say is empty, or null. */
interface EntryView {
  readonly id: string;
  readonly at: number;
  readonly event: LockHistoryEvent;
  readonly key: string;
  readonly instance: string;
  readonly where: string;
  readonly note: string;
  readonly ms: number | null;
  readonly reason: string;
  readonly by: string;
  readonly token: string;
  readonly count: number | null;
}

/** The history, as a page gets it: the newest entries, at most `limit`. */
export interface HistoryView {
  readonly entries: readonly EntryView[];
  readonly limit: number;
}

/** Prepares a history for a page. */
export const historyView = (entries: readonly LockHistoryEntry[], limit: number): HistoryView => ({
  entries: entries.map(entryView),
  limit,
});

function entryView(entry: LockHistoryEntry): EntryView {
  const { id, at, event, key, where = '', note = '', ms = null, reason = '', by = '', count = null } = entry;
  const token = String(entry.fencingToken ?? '');
  return { id, at: at.getTime(), event, key, instance: instanceOf(entry), where, note, ms, reason, by, token, count };
}
