import type { Clock, WakeUp, WakeUpListener } from 'nestjs-redis-lock/store';
import type { LockDatabase } from './database.js';
import { type LockRecord, wasRevoked } from './lock-record.js';
import { canEnter } from './rules.js';

/** What a watch needs of its store. */
export interface WatchParts {
  readonly clock: Pick<Clock, 'setTimer'>;
  readonly pollMs: number;
  /** Throws while there is no database. */
  readonly database: () => LockDatabase;
}

/**
 * SQLite does not notify readers of changes. So while attempts of this process hold locks or wait for them, the watch polls:
 * first whether any process has written at all, which costs next to nothing.
 */
export class Watch {
  listener: WakeUpListener | undefined;
  /** The attempts of this process, with the keys that each holds or waits for. */
  readonly #attempts = new Map<string, Set<string>>();
  #version = -1;
  #cancel: (() => void) | undefined;

  constructor(private readonly parts: WatchParts) {}

  add(attempt: string, keys: readonly string[]): void {
    this.#attempts.set(attempt, new Set(keys));
    this.changed();
  }

  remove(attempt: string, keys: readonly string[]): void {
    const left = this.#attempts.get(attempt);
    for (const key of keys) left?.delete(key);
    if (left?.size === 0) this.#attempts.delete(attempt);
    this.changed();
  }

  /** This process has written, which its own connection does not report. */
  changed(): void {
    this.#version = -1;
    if (this.#attempts.size > 0) this.#cancel ??= this.parts.clock.setTimer(() => this.#poll(), this.parts.pollMs);
  }

  stop(): void {
    this.#attempts.clear();
    this.#cancel?.();
    this.#cancel = undefined;
  }

  #poll(): void {
    this.#cancel = undefined;
    try {
      this.#look();
    } catch {
      // The database is busy or unavailable: try again next time. Waiting calls also ask by themselves, but less often.
      this.#version = -1;
    }
    if (this.#attempts.size > 0) this.#cancel ??= this.parts.clock.setTimer(() => this.#poll(), this.parts.pollMs);
  }

  #look(): void {
    const database = this.parts.database();
    const { version } = database;
    if (version === this.#version) return;
    this.#version = version;
    for (const [attempt, keys] of this.#attempts) {
      const records = [...keys].map((key) => database.look(key, (record) => record));
      const wakeUp = wakeUpOf(attempt, records);
      if (wakeUp === 'gone' || wakeUp?.kind === 'revoked') this.#attempts.delete(attempt);
      if (wakeUp && wakeUp !== 'gone') this.listener?.onWakeUp(attempt, wakeUp);
    }
  }
}

/** What to send to an attempt; `gone`: nothing, since its holds and places have ended. */
function wakeUpOf(attempt: string, records: readonly LockRecord[]): WakeUp | 'gone' | undefined {
  if (records.some((record) => wasRevoked(record, attempt))) return { kind: 'revoked' };
  const waiting = records.flatMap((record) => {
    const waiter = record.waiters.find((one) => one.attempt === attempt);
    return waiter ? [{ record, waiter }] : [];
  });
  if (waiting.length > 0)
    return waiting.every(({ record, waiter }) => canEnter(record, waiter)) ? { kind: 'wake' } : undefined;
  const isHeld = records.some(({ holds }) => holds.some((hold) => hold.attempt === attempt));
  return isHeld ? undefined : 'gone';
}
