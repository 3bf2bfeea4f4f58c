import { type LockHistoryBatch, type LockHistoryEntry, type LockHistoryQuery } from '../core/history/history-entry.js';
import { isAbout, newestFirst } from '../core/history/history-entry.js';

/** The histories of a server in memory, one for each prefix of keys. */
export class MemoryHistory {
  readonly #entries = new Map<string, LockHistoryEntry[]>();

  /** `now`: the time of the server, in milliseconds since the epoch. */
  append(
    prefix: string,
    { id, host, pid, maxEntries, keepMs, records, ...batch }: LockHistoryBatch,
    now: number,
  ): void {
    const entries = this.#entries.get(prefix) ?? [];
    for (const [i, { at, ...facts }] of records.entries()) {
      const happened = new Date(now - Math.round(batch.now - at));
      entries.push({ id: `${id}.${i}`, at: happened, host, pid, ...facts });
    }
    const kept = entries.filter((entry) => entry.at.getTime() > now - keepMs).slice(-maxEntries);
    this.#entries.set(prefix, kept);
  }

  read(prefix: string, { key, limit }: LockHistoryQuery): readonly LockHistoryEntry[] {
    const entries = (this.#entries.get(prefix) ?? []).filter((entry) => isAbout(entry, key));
    return newestFirst(entries.toReversed(), limit);
  }
}
