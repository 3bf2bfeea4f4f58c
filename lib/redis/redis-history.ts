import { type Clock } from '../core/clock.js';
import {
  isHistoryEvent,
  isWanted,
  type LockHistoryBatch,
  type LockHistoryEntry,
  type LockHistoryFacts,
  type LockHistoryQuery,
  type LockHistoryRecord,
  type LockHistoryStore,
  newestFirst,
} from '../core/history/history-entry.js';
import { LockStoreError } from '../core/lock.errors.js';
import { objectIn } from '../core/read-options.js';
import { READING_HISTORY, type Task, WRITING_HISTORY } from '../core/store/subject.js';
import { type Operands } from './client/redis-client.js';
import { type RedisKeys } from './codec/redis-keys.js';
import { wholeNumber } from './codec/replies.js';
import { type Connection } from './connection/connection.js';
import { type LockScripts, type LuaScript, withHashes } from './scripts/lock-scripts.js';
import {
  CLOCK_DRIFT,
  HISTORY_LOOKS,
  MAX_HISTORY_DELAY_MS,
  MAX_HISTORY_LOOKS,
  MAX_HISTORY_READ_MS,
  OPERATOR_TIMEOUT_MS,
} from './timing.js';

/** The number of texts per entry in a reply. */
const ENTRY_TEXTS = 7;

/** The facts of an entry without its keys, as JSON; undefined facts are left out. */
type Facts = Omit<LockHistoryFacts, 'key' | 'keys'>;

/** The last answer to a batch: its send time, by the server and by this process, and the time of its last entry. */
interface LastBatch {
  readonly serverMs: number;
  readonly sentAt: number;
  readonly last: string;
}

/** A history that is read by several commands. */
export interface PagedHistory extends LockHistoryStore {
  /** `pageMs`: the time limit of one command, for several hundred entries. */
  read(query: LockHistoryQuery, pageMs?: number): Promise<readonly LockHistoryEntry[]>;
}

/** The history of the locks of one prefix, in a stream of one Redis. */
export class RedisHistory implements PagedHistory {
  readonly #scripts: Readonly<Record<keyof LockScripts, LuaScript>>;
  #lastBatch: LastBatch | null = null;
  #questions = 0;

  constructor(
    private readonly commands: Connection,
    scripts: LockScripts,
    private readonly keys: RedisKeys,
    private readonly clock: Clock,
  ) {
    this.#scripts = withHashes(scripts);
  }

  /** Builds the operands at the time of sending, with the age of each entry then: the command may have to wait for a connection. */
  async append(batch: LockHistoryBatch): Promise<void> {
    const startedAt = this.clock.now();
    let sentAt = startedAt;
    const operands = (): Operands => {
      sentAt = this.clock.now();
      return this.#operandsOf(batch, batch.now + (sentAt - startedAt), this.#expectedMs(sentAt));
    };
    const reply = await this.#ask(WRITING_HISTORY, 'appendHistory', operands, batch.id, OPERATOR_TIMEOUT_MS);
    const [kind, , serverMs, last = ''] = reply;
    if (kind !== 'appended') throw unreadableError(WRITING_HISTORY);
    this.#lastBatch = { serverMs: wholeNumber(serverMs), sentAt, last };
  }

  /** Reads at most as much as a history may have. */
  async read(
    { key, limit, before: end }: LockHistoryQuery,
    pageMs = OPERATOR_TIMEOUT_MS,
  ): Promise<readonly LockHistoryEntry[]> {
    const entries: LockHistoryEntry[] = [];
    // A batch that was sent twice is stored twice.
    const ids = new Set<string>();
    const most = key === undefined ? Math.min(limit, HISTORY_LOOKS) : HISTORY_LOOKS;
    const until = this.clock.now() + Math.max(MAX_HISTORY_READ_MS, pageMs);
    // No id of an entry is before 1970.
    if (end && end.getTime() <= 0) return [];
    // Entries are stored after their events, and a batch that could not be written arrives late.
    let before = end ? `${end.getTime() + MAX_HISTORY_DELAY_MS}-0` : '+';
    for (let looks = 0; looks < MAX_HISTORY_LOOKS && ids.size < limit; looks += most) {
      const leftMs = until - this.clock.now();
      if (leftMs <= 0) throw tooLongError();
      const page = await this.#readPage({ before, key, most }, Math.min(pageMs, leftMs));
      const wanted = page.entries.filter((entry) => isWanted(entry, { before: end }));
      for (const entry of wanted) ids.add(entry.id);
      entries.push(...wanted);
      if (page.looked < most) break;
      before = page.last;
    }
    return newestFirst(entries, limit);
  }

  async #readPage(
    page: { readonly before: string; readonly key?: string | undefined; readonly most: number },
    ms: number,
  ) {
    const { before, key, most } = page;
    this.#questions += 1;
    const question = String(this.#questions);
    const wanted = key === undefined ? { key: '', quoted: '' } : { key, quoted: JSON.stringify(key) };
    const operands = [1, this.keys.historyKey, question, before, most, wanted.key, wanted.quoted];
    const reply = await this.#ask(READING_HISTORY, 'readHistory', () => operands, question, ms);
    const [kind, , looked, last = '', ...texts] = reply;
    if (kind !== 'entries') throw unreadableError(READING_HISTORY);
    return { looked: wholeNumber(looked), last, entries: entriesIn(texts) };
  }

  /** `now`: when it is sent, by the clock of the records. */
  #operandsOf(
    { id, host, pid, maxEntries, keepMs, records }: LockHistoryBatch,
    now: number,
    expected: string,
  ): Operands {
    const { historyKey: history } = this.keys;
    const kept = keepMs === Infinity ? '' : keepMs;
    const operands = [1, history, id, maxEntries, kept, host, pid, expected, this.#lastBatch?.last ?? ''];
    for (const record of records) operands.push(...operandsOfRecord(record, now));
    return operands;
  }

  /** The expected time of the server's clock; empty: unknown. It may run a little faster than ours, or the difference would grow. */
  #expectedMs(now: number): string {
    if (!this.#lastBatch) return '';
    const { serverMs, sentAt } = this.#lastBatch;
    return String(Math.floor(serverMs + (now - sentAt) * (1 + CLOCK_DRIFT)));
  }

  #ask(
    subject: Task,
    name: 'appendHistory' | 'readHistory',
    operands: () => Operands,
    echo: string,
    timeoutMs: number,
  ): Promise<string[]> {
    const { historyKey } = this.keys;
    const request = { subject, storageKey: historyKey, timeoutMs, echo };
    return this.commands.runScript(request, () => ({ script: this.#scripts[name], operands: operands() }));
  }
}

function operandsOfRecord({ at, key, keys, ...facts }: LockHistoryRecord, now: number): (string | number)[] {
  const list = keys.length > 1 ? JSON.stringify(keys) : '';
  return [Math.max(Math.round(now - at), 0), key, list, JSON.stringify(facts satisfies Facts)];
}

/** The entries of a reply, which has several texts of each. */
function entriesIn(texts: readonly string[]): LockHistoryEntry[] {
  const entries: LockHistoryEntry[] = [];
  for (let next = 0; next < texts.length; next += ENTRY_TEXTS) {
    if (next + ENTRY_TEXTS > texts.length) throw unreadableError(READING_HISTORY);
    const entry = entryOf(texts.slice(next, next + ENTRY_TEXTS));
    if (entry) entries.push(entry);
  }
  return entries;
}

/** Undefined for an entry of a newer version, or of another program. */
function entryOf([id, time, host = '', pid, key = '', list, json]: readonly string[]): LockHistoryEntry | undefined {
  const facts: Partial<Record<keyof Facts, unknown>> | undefined = objectIn(json);
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
    keys: keysIn(list) ?? (key === '' ? [] : [key]),
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

function keysIn(list: string | undefined): readonly string[] | undefined {
  const keys = objectIn(list);
  const isList = Array.isArray(keys) && keys.every((key) => typeof key === 'string');
  return isList ? keys : undefined;
}

const unreadableError = ({ task }: Task): LockStoreError =>
  new LockStoreError(
    `Redis was asked to ${task}, and sent a reply that none of our scripts can send. Check what answers at its address.`,
  );

const tooLongError = (): LockStoreError =>
  new LockStoreError(
    `Redis has not sent the whole history of the locks within ${MAX_HISTORY_READ_MS} ms. Ask for fewer entries (\`limit\`).`,
  );
