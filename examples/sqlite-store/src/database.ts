import Database from 'libsql';
import { keptUntil, type LockRecord, newRecord, settle } from './lock-record.js';

/** How long the first statements may wait for other processes that run them at the same time. */
const SET_UP_MS = 10_000;

/** How long a command may wait for the transactions of other processes. It blocks the process, so it is short. */
const BUSY_MS = 100;

const FORGET_EVERY_MS = 60_000;

const SCHEMA = `
  CREATE TABLE IF NOT EXISTS locks (key TEXT PRIMARY KEY, record TEXT NOT NULL, kept_until INTEGER NOT NULL) WITHOUT ROWID;
  CREATE INDEX IF NOT EXISTS locks_by_end ON locks (kept_until);
`;

/** The locks in the file: one row for each, and one transaction for each command. */
export class LockDatabase {
  readonly #sql: Database.Database;
  #forgotAt = 0;

  /** `now`: the clock of the machine, in milliseconds since the epoch. All processes share it, so it measures all leases. */
  constructor(
    file: string,
    private readonly keepMs: number,
    private readonly now: () => number,
  ) {
    this.#sql = new Database(file, { timeout: SET_UP_MS });
    // In this mode, readers and the writer do not wait for each other.
    this.#sql.pragma('journal_mode = WAL');
    this.#sql.exec(SCHEMA);
    // When the machine stops without warning, the last grants may be lost; but so are the processes that got them.
    this.#sql.pragma('synchronous = NORMAL');
    this.#sql.pragma(`busy_timeout = ${BUSY_MS}`);
  }

  /** Changes the records of some keys, or none of them. `wereHeld`: the attempts that held each before it was settled. */
  change<T>(
    keys: readonly string[],
    work: (records: readonly LockRecord[], now: number, wereHeld: Set<string>) => T,
  ): T {
    const run = this.#sql.transaction(() => {
      // Read inside of the transaction: the time of a command is never before that of the previous command.
      const now = this.#time();
      this.#forget(now);
      const records = keys.map((key) => this.#load(key));
      const wereHeld = new Set(records.flatMap(({ holds }) => holds.map(({ attempt }) => attempt)));
      for (const record of records) settle(record, now);
      const result = work(records, now, wereHeld);
      for (const [i, key] of keys.entries()) this.#save(key, records[i]!, now);
      return result;
    });
    // Take the write lock first: two transactions that have read could not both continue with a write.
    return run.immediate();
  }

  /** Reads a record without changing anything. */
  look<T>(key: string, work: (record: LockRecord, now: number) => T): T {
    const now = this.#time();
    const record = this.#load(key);
    settle(record, now);
    return work(record, now);
  }

  /** The keys that begin with a prefix. */
  keys(prefix: string): string[] {
    // UTF-8 bytes are compared, so all keys with the prefix are adjacent; but there is no last text with the prefix.
    const rows = this.#sql.prepare('SELECT key FROM locks WHERE key >= ? ORDER BY key').all(prefix) as {
      key: string;
    }[];
    return rows.map(({ key }) => key).filter((key) => key.startsWith(prefix));
  }

  /** Changes when another connection, of any process, has written. */
  get version(): number {
    return (this.#sql.prepare('PRAGMA data_version').get() as { data_version: number }).data_version;
  }

  close(): void {
    this.#sql.close();
  }

  #time(): number {
    return Math.floor(this.now());
  }

  #load(key: string): LockRecord {
    const row = this.#sql.prepare('SELECT record FROM locks WHERE key = ?').get(key) as { record: string } | undefined;
    return row ? (JSON.parse(row.record) as LockRecord) : newRecord();
  }

  #save(key: string, record: LockRecord, now: number): void {
    const row = [key, JSON.stringify(record), keptUntil(record, now, this.keepMs)];
    this.#sql.prepare('INSERT OR REPLACE INTO locks (key, record, kept_until) VALUES (?, ?, ?)').run(...row);
  }

  #forget(now: number): void {
    if (Math.abs(now - this.#forgotAt) < FORGET_EVERY_MS) return;
    this.#forgotAt = now;
    this.#sql.prepare('DELETE FROM locks WHERE kept_until < ?').run(now);
  }
}
