import { AsyncLocalStorage } from 'node:async_hooks';
import { LockStoreError } from '../lock.errors.js';
import { type Clock } from '../clock.js';
import { LogLimit } from '../log-limit.js';
import { type Reporter, reasonOf, withoutRepeats } from '../reporter.js';
import { type ScheduledCall, type TimerQueue } from '../timer-queue.js';
import {
  HISTORY_PAUSE_MS,
  HISTORY_RETRY_MS,
  LAST_HISTORY_MS,
  MAX_HISTORY_BATCH,
  MAX_HISTORY_BATCH_CHARS,
  MAX_HISTORY_QUEUE,
  MAX_HISTORY_QUEUE_CHARS,
} from '../timing.js';
import { type LockHistoryBatch, type LockHistoryFacts, type LockHistoryRecord, NO_FACTS } from './history-entry.js';

/** The collaborators of a `HistoryBuffer`. */
interface BufferParts {
  readonly clock: Clock;
  readonly timers: TimerQueue;
  readonly reporter: Reporter;
  /** The batch without its id, time and records. */
  readonly terms: Omit<LockHistoryBatch, 'id' | 'now' | 'records'>;
  /** Unique for the process: the first part of the ids. */
  readonly clientId: string;
  readonly append: (batch: LockHistoryBatch) => Promise<void>;
}

/**
 * Writes records to the store in batches, one at a time, and never makes a caller wait. Records that cannot be written wait here, up to
 * a number and a length; further records are dropped and counted.
 */
export class HistoryBuffer {
  readonly #inOwnContext = AsyncLocalStorage.snapshot();
  readonly #log: LogLimit;
  #warnOnce!: (line: string) => void;
  #queue: LockHistoryRecord[] = [];
  /** The total length of the texts in the queue, in characters. */
  #chars = 0;
  /** How many records have left the queue. */
  #taken = 0;
  /** The batch that is being written, or is written again: always the same records, by which readers recognise it. */
  #batch: Omit<LockHistoryBatch, 'now'> | null = null;
  #batches = 0;
  #dropped = 0;
  #sending: Promise<boolean> | null = null;
  #next: ScheduledCall | null = null;
  /** The error of the last try; null: it succeeded. */
  #failure: { readonly error: unknown } | null = null;
  #isClosed = false;

  constructor(private readonly parts: BufferParts) {
    const { clock, timers, reporter } = parts;
    this.#log = new LogLimit(clock, timers, 'warnings about the history of locks', (line) => reporter.warn(line));
    this.#forgetWarnings();
  }

  /** The number of records that wait to be written. */
  get size(): number {
    return this.#queue.length + (this.#batch?.records.length ?? 0);
  }

  add(facts: LockHistoryFacts): void {
    if (this.#isClosed) return;
    const chars = this.#chars + charsOf(facts);
    if (this.#queue.length >= MAX_HISTORY_QUEUE || chars > MAX_HISTORY_QUEUE_CHARS) return this.#drop();
    const wasFull = this.#isBatchFull;
    this.#queue.push({ ...facts, at: this.parts.clock.now() });
    this.#chars = chars;
    if ((this.#isBatchFull && !wasFull) || (!this.#next && !this.#sending)) this.#schedule();
  }

  get #isBatchFull(): boolean {
    return this.#queue.length >= MAX_HISTORY_BATCH || this.#chars >= MAX_HISTORY_BATCH_CHARS;
  }

  /** Writes all records added so far, unless a try fails. Never rejects. */
  async flush(): Promise<void> {
    const last = this.#taken + this.#queue.length;
    while (this.size > 0 && (this.#taken < last || this.#batch)) if (!(await this.#send())) return;
  }

  /** Accepts no more records, and gives the last ones a short time to be written. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.parts.timers.withTimeout(LAST_HISTORY_MS, this.#flushAll());
    this.#next?.cancel();
    this.#next = null;
    const records = [...(this.#batch?.records ?? []), ...this.#queue];
    const left = records.reduce((sum, { count = 1 }) => sum + count, this.#dropped);
    this.#queue = [];
    if (left > 0)
      this.#log.add(`Entries of the history of locks not confirmed when the app ended: ${left}${this.#why}.`);
    this.#log.flush();
  }

  /** Also writes the entry that a success adds: the number of dropped entries. */
  async #flushAll(): Promise<void> {
    while (this.size > 0) if (!(await this.#send())) return;
  }

  get #why(): string {
    return this.#failure ? `: ${reasonOf(this.#failure.error)}` : '';
  }

  #drop(): void {
    this.#dropped += 1;
    if (this.#dropped > 1) return;
    const text = `The history of locks drops entries, since ${this.#queue.length} wait to be written`;
    this.#warnOnce(`${text}${this.#why}. A later entry has their number. No lock is affected.`);
  }

  /** A full batch is written soon, unless the last try failed. */
  #schedule(): void {
    this.#next?.cancel();
    const pauseMs = this.#isBatchFull ? 0 : HISTORY_PAUSE_MS;
    const at = this.parts.clock.now() + (this.#failure ? HISTORY_RETRY_MS : pauseMs);
    this.#next = this.parts.timers.schedule(at, () => void this.#send());
  }

  /** Resolves with whether a batch was written. */
  #send(): Promise<boolean> {
    if (this.size === 0) return Promise.resolve(true);
    return (this.#sending ??= this.#inOwnContext(() => this.#sendOne()));
  }

  async #sendOne(): Promise<boolean> {
    this.#next?.cancel();
    this.#next = null;
    this.#batch ??= this.#nextBatch();
    try {
      await this.parts.append({ ...this.#batch, now: this.parts.clock.now() });
      this.#batch = null;
      this.#failure = null;
      this.#tellDropped();
      if (this.size === 0) this.#forgetWarnings();
    } catch (error) {
      this.#onFailure(error);
    }
    this.#sending = null;
    if (this.size > 0 && !this.#isClosed) this.#schedule();
    return !this.#failure;
  }

  #nextBatch(): Omit<LockHistoryBatch, 'now'> {
    const records = this.#queue.splice(0, this.#batchLength());
    this.#taken += records.length;
    for (const record of records) this.#chars -= charsOf(record);
    this.#batches += 1;
    return { ...this.parts.terms, id: `${this.parts.clientId}.${this.#batches}`, records };
  }

  #batchLength(): number {
    let chars = 0;
    const tooLong = (record: LockHistoryRecord): boolean => (chars += charsOf(record)) > MAX_HISTORY_BATCH_CHARS;
    const fitting = this.#queue.slice(0, MAX_HISTORY_BATCH).findIndex(tooLong);
    return fitting < 0 ? MAX_HISTORY_BATCH : Math.max(fitting, 1);
  }

  /** Warnings about the next outage are logged again. */
  #forgetWarnings(): void {
    this.#warnOnce = withoutRepeats((line) => this.#log.add(line));
  }

  /** An unreachable store is reported by the locks; any other failure would pass unnoticed. */
  #onFailure(error: unknown): void {
    this.#failure = { error };
    if (error instanceof LockStoreError && error.retryable) return;
    this.#warnOnce(`The history of locks cannot be written${this.#why}. No lock is affected.`);
  }

  #tellDropped(): void {
    // While the queue is too full, one entry stands for all dropped records.
    const isHalfFull = this.#queue.length > MAX_HISTORY_QUEUE / 2 || this.#chars > MAX_HISTORY_QUEUE_CHARS / 2;
    if (this.#dropped === 0 || isHalfFull) return;
    this.#queue.push({ ...NO_FACTS, event: 'dropped', count: this.#dropped, at: this.parts.clock.now() });
    this.#dropped = 0;
  }
}

/** The length of the texts of a record. With several keys, each occurs twice. */
const charsOf = ({ key, keys, where = '', note = '', reason = '', by = '' }: LockHistoryFacts): number =>
  key.length * Math.min(keys.length, 2) + where.length + note.length + reason.length + by.length;
