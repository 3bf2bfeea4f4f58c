import {
  isHistoryEvent,
  type LockHistoryBatch,
  type LockHistoryEntry,
  type LockHistoryQuery,
  type LockHistoryRecord,
  type LockHistoryStore,
  newestFirst,
} from '../core/history/history-entry.js';
import { LockStoreError } from '../core/lock.errors.js';
import { type RedisKeys } from './codec/redis-keys.js';
import { wholeNumber } from './codec/reply-parts.js';
import { type CommandRunner } from './connection/command-runner.js';
import { type LockScripts } from './scripts/lock-scripts.js';
import { HISTORY_LOOKS, MAX_HISTORY_LOOKS, OPERATOR_TIMEOUT_MS } from './timing.js';

/** The fields of an entry in the stream besides those of its batch, and how they are read; those that say nothing are left out. */
const FIELDS = ['event', 'key', 'mode', 'where', 'note', 'ms', 'reason', 'fencingToken', 'by', 'count'] as const;

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
    const operands = script.operands({ history, batch: id, maxEntries, keepMs, host, pid });
    for (const record of records) {
      const texts = textsOf(record);
      operands.push(Math.max(Math.round(now - record.at), 0), texts.length, ...texts);
    }
    await this.commands.run({ script, operands, key: history, timeoutMs: OPERATOR_TIMEOUT_MS, echo: id });
  }

  /** Looks at no more entries than a history may have. */
  async read({ key, limit }: LockHistoryQuery): Promise<readonly LockHistoryEntry[]> {
    const entries: LockHistoryEntry[] = [];
    let before = '+';
    for (let looks = 0; looks < MAX_HISTORY_LOOKS && entries.length < limit; looks += HISTORY_LOOKS) {
      const page = await this.#readPage(before, key ?? '');
      entries.push(...page.entries);
      if (page.looked < HISTORY_LOOKS) break;
      before = page.last;
    }
    return newestFirst(entries, limit);
  }

  async #readPage(before: string, key: string) {
    const { readHistory: script } = this.scripts;
    const history = this.keys.historyKey;
    const operands = script.operands({ history, before, key, most: HISTORY_LOOKS });
    const call = { script, operands, key: history, timeoutMs: OPERATOR_TIMEOUT_MS, echo: before };
    const [kind, , looked, last = '', ...texts] = await this.commands.run(call);
    if (kind !== 'entries') throw unreadableError(history);
    return { looked: wholeNumber(looked), last, entries: entriesIn(texts, history) };
  }
}

const textsOf = (record: LockHistoryRecord): (string | number)[] =>
  FIELDS.flatMap((name) => {
    const value = record[name];
    return value === undefined || value === '' ? [] : [name, value];
  });

/** The entries of a reply. Those of a newer version, and what somebody else has written, are left out. */
function entriesIn(texts: readonly string[], history: string): LockHistoryEntry[] {
  const entries: LockHistoryEntry[] = [];
  let next = 0;
  while (next < texts.length) {
    const count = wholeNumber(texts[next]);
    if (Number.isNaN(count) || next + count >= texts.length) throw unreadableError(history);
    const entry = entryOf(new Map(pairsIn(texts.slice(next + 1, next + 1 + count))));
    if (entry) entries.push(entry);
    next += 1 + count;
  }
  return entries;
}

function* pairsIn(texts: readonly string[]): Generator<[name: string, value: string]> {
  for (let i = 0; i + 1 < texts.length; i += 2) yield [texts[i]!, texts[i + 1]!];
}

function entryOf(fields: ReadonlyMap<string, string>): LockHistoryEntry | undefined {
  const [id, event, mode] = [fields.get('id'), fields.get('event'), fields.get('mode')];
  const at = new Date(wholeNumber(fields.get('at')));
  if (!id || !isHistoryEvent(event) || Number.isNaN(at.getTime())) return undefined;
  const number = (name: string): number | undefined => {
    const value = wholeNumber(fields.get(name));
    return Number.isNaN(value) ? undefined : value;
  };
  return {
    id,
    at,
    event,
    key: fields.get('key') ?? '',
    mode: mode === 'read' || mode === 'write' ? mode : undefined,
    host: fields.get('host') ?? '',
    pid: number('pid') ?? 0,
    where: fields.get('where'),
    note: fields.get('note'),
    ms: number('ms'),
    reason: fields.get('reason'),
    fencingToken: number('fencingToken'),
    by: fields.get('by'),
    count: number('count'),
  };
}

const unreadableError = (history: string): LockStoreError =>
  new LockStoreError(
    `Redis sent a reply for the history of locks "${history}" that no script can send. Check what answers there.`,
    {
      key: history,
    },
  );
