import { EventListeners } from '../core/event-listeners.js';
import { type LockHistoryEntry } from '../core/history/history-entry.js';
import { type LockEvents } from '../core/lock.events.js';
import { instanceOf } from './lock-views.js';

/** How many losses an instance remembers, and a page shows. */
export const MAX_LOSSES = 200;

/** A loss, as a page gets it. */
export interface LossView {
  /** Tells it from others. */
  readonly id: string;
  readonly at: number;
  readonly key: string;
  readonly instance: string;
  readonly where: string;
  readonly mode: string;
  readonly heldMs: number;
  readonly reason: string;
  readonly token: string;
}

/** Remembers the last losses of this instance, the latest first. */
export class OwnLosses {
  readonly #losses: LossView[] = [];
  readonly #listeners: EventListeners;

  /** `instance`: `host:pid`. */
  constructor(events: LockEvents, instance: string) {
    this.#listeners = new EventListeners(events).on(
      'lost',
      ({ key, where, mode, heldMs, reason, attempt, fencingToken }) => {
        const token = String(fencingToken);
        const id = `${attempt} ${token}`;
        this.#losses.unshift({ id, at: Date.now(), key, instance, where, mode, heldMs, reason, token });
        this.#losses.splice(MAX_LOSSES);
      },
    );
  }

  get all(): readonly LossView[] {
    return this.#losses;
  }

  stop(): void {
    this.#listeners.stop();
  }
}

/**
 * The losses in entries of the history, and those of this instance, the latest first, each once: the history goes back less far where
 * locks are many, and may lack entries.
 */
export function allLosses(entries: readonly LockHistoryEntry[], own: readonly LossView[]): LossView[] {
  const losses = new Map<string, LossView>();
  const known = entries.filter(({ event }) => event === 'lost').map(lossView);
  for (const loss of [...known, ...own]) {
    const id = `${loss.key}\n${loss.token}`;
    if (!losses.has(id)) losses.set(id, loss);
  }
  return [...losses.values()].sort((a, b) => b.at - a.at).slice(0, MAX_LOSSES);
}

function lossView(entry: LockHistoryEntry): LossView {
  const { id, at, key, where = '', mode = '', ms = 0, reason = '', fencingToken = '' } = entry;
  const instance = instanceOf(entry);
  return { id, at: at.getTime(), key, instance, where, mode, heldMs: ms, reason, token: String(fencingToken) };
}
