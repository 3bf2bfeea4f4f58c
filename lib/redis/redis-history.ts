import {
  isHistoryEvent,
  type LockHistoryBatch,
  type LockHistoryEntry,
  type LockHistoryFacts,
  type LockHistoryQuery,
  type LockHistoryStore,
  newestFirst,
} from '../core/history/history-entry.js';
import { LockStoreError } from '../core/lock.errors.js';
import { type RedisKeys } from './codec/redis-keys.js';
import { wholeNumber } from './codec/reply-parts.js';
import { type CommandRunner } from './connection/command-runner.js';
import { type LockScripts } from './scripts/lock-scripts.js';
import { HISTORY_LOOKS, MAX_HISTORY_LOOKS, OPERATOR_TIMEOUT_MS } from './timing.js';

/** How many texts a reply has of each entry. */
const ENTRY_TEXTS = 6;

/** What an entry says besides its key, in a text of JSON; what is undefined is left out. */
type Facts = Omit<LockHistoryFacts, 'key'>;

/** The history of the locks of one prefix, in a stream of one Redis. */
export class RedisHistory implements LockHistoryStore {
  constructor(
    private readonly commands: CommandRunner,
    private readonly scripts: LockScripts,
    private readonly keys: RedisKeys,
  ) {}

  async append({ id, host, pid, now, maxEntries, keepMs, records }: LockHistoryBatch): Promise<void> {
    const { appendHistory: script } = this.scripts;
    const history = this.keys.historyKey;
    const kept = { maxEntries, keepMs: keepMs === Infinity ? '' : keepMs };
    const operands = script.operands({ history, batch: id, ...kept, host, pid });
    for (const { at, key, ...facts } of records) {
      operands.push(Math.max(Math.round(now - at), 0), key, JSON.stringify(facts satisfies Facts));
    }
    await this.commands.run({ script, operands, key: history, timeoutMs: OPERATOR_TIMEOUT_MS, echo: id });
  }

  /** Looks at no more entries than a history may have. */
  async read({ key, limit }: LockHistoryQuery): Promise<readonly LockHistoryEntry[]> {
    const entries: LockHistoryEntry[] = [];
    // A batch that was sent twice is there twice.
    const ids = new Set<string>();
    const most = key === undefined ? Math.min(limit, HISTORY_LOOKS) : HISTORY_LOOKS;
    let before = '+';
    for (let looks = 0; looks < MAX_HISTORY_LOOKS && ids.size < limit; looks += most) {
      const page = await this.#readPage(before, key ?? '', most);
      for (const entry of page.entries) ids.add(entry.id);
      entries.push(...page.entries);
      if (page.looked < most) break;
      before = page.last;
    }
    return newestFirst(entries, limit);
  }

  async #readPage(before: string, key: string, most: number) {
    const { readHistory: script } = this.scripts;
    const history = this.keys.historyKey;
    const operands = script.operands({ history, before, key, most });
    const call = { script, operands, key: history, timeoutMs: OPERATOR_TIMEOUT_MS, echo: before };
    const [kind, , looked, last = '', ...texts] = await this.commands.run(call);
    if (kind !== 'entries') throw unreadableError(history);
    return { looked: wholeNumber(looked), last, entries: entriesIn(texts, history) };
  }
}

/** The entries of a reply, which has six texts of each. */
function entriesIn(texts: readonly string[], history: string): LockHistoryEntry[] {
  const entries: LockHistoryEntry[] = [];
  for (let next = 0; next < texts.length; next += ENTRY_TEXTS) {
    if (next + ENTRY_TEXTS > texts.length) throw unreadableError(history);
    const entry = entryOf(texts.slice(next, next + ENTRY_TEXTS));
    if (entry) entries.push(entry);
  }
  return entries;
}

/** Undefined for an entry of a newer version, and for what somebody else has written. */
function entryOf([id, time, host = '', pid, key = '', json]: readonly string[]): LockHistoryEntry | undefined {
  const facts = factsIn(json);
  const at = new Date(wholeNumber(time));
  if (!id || !facts || Number.isNaN(at.getTime())) return undefined;
  const { event, mode } = facts;
  if (typeof event !== 'string' || !isHistoryEvent(event)) return undefined;
  const text = (name: keyof Facts) => (typeof facts[name] === 'string' ? facts[name] : undefined);
  const number = (name: keyof Facts) => (typeof facts[name] === 'number' ? facts[name] : undefined);
  return {
    id,
    at,
    event,
    key,
    mode: mode === 'read' || mode === 'write' ? mode : undefined,
    host,
    pid: wholeNumber(pid) || 0,
    where: text('where'),
    note: text('note'),
    ms: number('ms'),
    reason: text('reason'),
    fencingToken: number('fencingToken'),
    by: text('by'),
    count: number('count'),
  };
}

function factsIn(json: string | undefined): Partial<Record<keyof Facts, unknown>> | undefined {
  try {
    const facts: unknown = JSON.parse(json ?? '');
    return typeof facts === 'object' && facts !== null ? facts : undefined;
  } catch {
    return undefined;
  }
}

const unreadableError = (history: string): LockStoreError =>
  new LockStoreError(
    `Redis sent a reply for the history of locks "${history}" that no script can send. Check what answers there.`,
    {
      key: history,
    },
  );
