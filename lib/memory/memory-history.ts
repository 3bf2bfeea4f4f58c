import { type LockHistoryBatch, type LockHistoryEntry, type LockHistoryQuery } from '../core/history/history-entry.js';
import { isAbout, newestFirst } from '../core/history/history-entry.js';

/** The histories of a server in memory, one for each prefix of keys. */
export class MemoryHistory {
  readonly #histories = new Map<string, { readonly entries: LockHistoryEntry[]; readonly until: number }>();

  /** `now`: the time of the server, in milliseconds since the epoch. */
  append(
    prefix: string,
    { id, host, pid, maxEntries, keepMs, records, ...batch }: LockHistoryBatch,
    now: number,
  ): void {
    const before = this.#histories.get(prefix);
    const entries = this.#kept(prefix, now);
    for (const [i, { at, ...facts }] of records.entries()) {
      const happened = new Date(now - Math.round(batch.now - at));
      entries.push({ id: `${id}.${i}`, at: happened, host, pid, ...facts });
    }
    const kept = entries.filter((entry) => entry.at.getTime() > now - keepMs).slice(-maxEntries);
    const until = keepMs === Infinity ? (before?.until ?? Infinity) : now + keepMs;
    this.#histories.set(prefix, { entries: kept, until });
  }

  read(prefix: string, { key, limit }: LockHistoryQuery, now: number): readonly LockHistoryEntry[] {
    const entries = this.#kept(prefix, now).filter((entry) => isAbout(entry, key));
    return newestFirst(entries.toReversed(), limit).map((entry) => ({ ...entry, at: new Date(entry.at) }));
  }

  #kept(prefix: string, now: number): LockHistoryEntry[] {
    const { entries, until } = this.#histories.get(prefix) ?? { entries: [], until: Infinity };
    if (now < until) return [...entries];
    this.#histories.delete(prefix);
    return [];
  }
}
