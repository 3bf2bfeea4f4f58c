import { checkDuration, checkWhole, kindOf } from '../option-checks.js';
import { readOptions } from '../read-options.js';

/** How many entries a history may have. */
export const MAX_HISTORY_ENTRIES = 100_000;

/** How much of the history of the locks is kept. */
export interface LockHistoryOptions {
  /**
   * How many entries are kept, of all instances; Redis may keep up to a hundred more.
   * @default 10_000
   */
  maxEntries?: number;
  /**
   * How long an entry is kept, in milliseconds; Redis may keep some of them longer.
   * @default 86_400_000 (a day)
   */
  keepMs?: number;
}

/** The options with all defaults filled in. */
export type HistoryLimits = Readonly<Required<LockHistoryOptions>>;

/** The option `history` of the module. */
export const HISTORY = kindOf(
  'true, false or an object with `maxEntries` and `keepMs`',
  (value) => typeof value === 'boolean' || (typeof value === 'object' && value !== null),
);

const NAMES = ['maxEntries', 'keepMs'] satisfies readonly (keyof LockHistoryOptions)[];

/**
 * Fills in the limits of a history; null: no history is written.
 * @throws LockConfigurationError
 */
export function resolveHistory(given: boolean | LockHistoryOptions): HistoryLimits | null {
  if (given === false) return null;
  const options: LockHistoryOptions = given === true ? {} : readOptions(given, NAMES, 'history');
  const { maxEntries = 10_000, keepMs = 24 * 3_600_000 } = options;
  checkWhole(maxEntries, 'history.maxEntries', { min: 100, max: MAX_HISTORY_ENTRIES });
  checkDuration(keepMs, 'history.keepMs', { min: 60_000, max: 31 * 24 * 3_600_000 });
  return { maxEntries, keepMs };
}
