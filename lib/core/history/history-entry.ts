import { type LockMode } from '../lock.errors.js';
import { duration, kindOf, whole } from '../option-checks.js';
import { readOptions, refuse } from '../read-options.js';

/**
 * What happened to a lock. `acquired`: granted, or adopted. `waited`: it was busy, and a call began to wait. `released`: also
 * handed on or transferred. `lost`. `forced`: an operator revoked it. `skipped`: a decorated call did not run. `failed`: not
 * granted. `dropped`: stands for entries that could not be written.
 */
export type LockHistoryEvent =
  'acquired' | 'waited' | 'released' | 'lost' | 'forced' | 'skipped' | 'failed' | 'dropped';

/** Types are gone at run time, so the names are listed; a list that lacks one does not compile. */
const EVENTS = {
  acquired: true,
  waited: true,
  released: true,
  lost: true,
  forced: true,
  skipped: true,
  failed: true,
  dropped: true,
} satisfies Record<LockHistoryEvent, true>;

/** Whether a text names an event; a newer version may write other events. */
export const isHistoryEvent = (text: string | undefined): text is LockHistoryEvent =>
  text !== undefined && Object.hasOwn(EVENTS, text);

/** The facts of one event for the history. */
export interface LockHistoryFacts {
  readonly event: LockHistoryEvent;
  /** The key; several are joined by `, `. Empty for `dropped`. */
  readonly key: string;
  /** The keys, one by one: a key may contain a comma. None for `dropped`. */
  readonly keys: readonly string[];
  /** Undefined for `forced` and `dropped`. */
  readonly mode: LockMode | undefined;
  /** `Class.method` if a decorator acquired it; undefined for other calls. */
  readonly where: string | undefined;
  /** The `note` of the call. */
  readonly note: string | undefined;
  /** In milliseconds: how long the lock was held (`released`, `lost`), or how long the call waited (`acquired`, `failed`). */
  readonly ms: number | undefined;
  /**
   * For `lost`, `skipped` and `failed`: the reason of the event. For `waited`: the holder of the lock. `adopted` and `transferred` for
   * a lock that changed hands.
   */
  readonly reason: string | undefined;
  readonly fencingToken: number | undefined;
  /** For `forced`: the `by` of `forceRelease`. */
  readonly by: string | undefined;
  /** For `dropped`: the number of entries. */
  readonly count: number | undefined;
}

/** The facts that an event leaves out. */
export const NO_FACTS = {
  key: '',
  keys: [],
  mode: undefined,
  where: undefined,
  note: undefined,
  ms: undefined,
  reason: undefined,
  fencingToken: undefined,
  by: undefined,
  count: undefined,
} satisfies Omit<LockHistoryFacts, 'event'>;

/** One entry of the history of the locks. */
export interface LockHistoryEntry extends LockHistoryFacts {
  /** The id of the entry, unique within the `keyPrefix`. */
  readonly id: string;
  /** When it happened, by the store's clock. The entries of one instance are in order, unless that clock is set back. */
  readonly at: Date;
  /** The instance where it happened. */
  readonly host: string;
  readonly pid: number;
}

/** What happened, with its time on the monotonic clock of the process. */
export interface LockHistoryRecord extends LockHistoryFacts {
  readonly at: number;
}

/** Records of one process, in their order. A batch without an answer may be sent again. */
export interface LockHistoryBatch {
  /** Unique; the entries are named after it: `<id>.<number>`, from 0. */
  readonly id: string;
  readonly host: string;
  readonly pid: number;
  /** The present time on the clock of the records: `now - at` is the age of a record, in milliseconds. */
  readonly now: number;
  /** The number of entries to keep, of all processes; a store may keep a few more. */
  readonly maxEntries: number;
  /**
   * How long entries are kept, in milliseconds. All of them are forgotten when this time has passed since the last one. `Infinity`:
   * this batch does not change the limits.
   */
  readonly keepMs: number;
  readonly records: readonly LockHistoryRecord[];
}

/** Which entries to read. */
export interface LockHistoryQuery {
  /** Only entries of this lock (also with several keys), and `dropped` ones. */
  readonly key?: string | undefined;
  /** The maximum number of entries. */
  readonly limit: number;
  /** Only entries before this time, by the store's clock. */
  readonly before?: Date | undefined;
}

/** The part of a store that keeps the history of its locks. Its commands reject with a `LockStoreError`. */
export interface LockHistoryStore {
  append(batch: LockHistoryBatch): Promise<void>;
  /** The newest first, each once. */
  read(query: LockHistoryQuery): Promise<readonly LockHistoryEntry[]>;
}

/** Whether a query asks for an entry. An entry with several keys belongs to each of them. */
export const isWanted = (
  { keys, event, at }: LockHistoryEntry,
  { key, before }: Pick<LockHistoryQuery, 'key' | 'before'>,
): boolean => (key === undefined || event === 'dropped' || keys.includes(key)) && (!before || at < before);

/**
 * The newest entries first; entries of the same time stay in the given order. A repeated entry counts once, at its earliest time: a
 * read with `before` that returns any copy of it then agrees with a read without.
 */
export function newestFirst(entries: Iterable<LockHistoryEntry>, limit: number): readonly LockHistoryEntry[] {
  const byId = new Map<string, LockHistoryEntry>();
  for (const entry of entries) {
    const known = byId.get(entry.id);
    if (!known || entry.at < known.at) byId.set(entry.id, entry);
  }
  return [...byId.values()].sort((a, b) => b.at.getTime() - a.at.getTime()).slice(0, limit);
}

const QUERY_NAMES = ['key', 'limit', 'before'] satisfies readonly (keyof LockHistoryQuery)[];

/** The number of entries that `history` returns: the default and the maximum. */
export const HISTORY_LIMIT = { byDefault: 100, max: 10_000 } as const;

/**
 * Checks the options of a call of `history`, except the key.
 * @throws LockConfigurationError
 */
export function checkHistoryQuery(options: Partial<LockHistoryQuery>): LockHistoryQuery {
  const {
    key,
    limit = HISTORY_LIMIT.byDefault,
    before,
  }: typeof options = readOptions(options, QUERY_NAMES, 'history()');
  whole({ min: 1, max: HISTORY_LIMIT.max }).check(limit, 'limit');
  if (before !== undefined && !(before instanceof Date && !Number.isNaN(before.getTime()))) {
    refuse('before', before, 'a valid Date');
  }
  return { key, limit, before };
}

/** The maximum number of entries of a history. */
export const MAX_HISTORY_ENTRIES = 100_000;

/** The limits of the history of the locks. */
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

const OPTION_NAMES = ['maxEntries', 'keepMs'] satisfies readonly (keyof LockHistoryOptions)[];

/**
 * Fills in the limits of a history; null: no history is written.
 * @throws LockConfigurationError
 */
export function resolveHistory(given: boolean | LockHistoryOptions): HistoryLimits | null {
  if (given === false) return null;
  const options: LockHistoryOptions = given === true ? {} : readOptions(given, OPTION_NAMES, 'history');
  const { maxEntries = 10_000, keepMs = 24 * 3_600_000 } = options;
  whole({ min: 100, max: MAX_HISTORY_ENTRIES }).check(maxEntries, 'history.maxEntries');
  duration({ min: 60_000, max: 31 * 24 * 3_600_000 }).check(keepMs, 'history.keepMs');
  return { maxEntries, keepMs };
}
