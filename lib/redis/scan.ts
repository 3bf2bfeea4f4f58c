import { LockStoreError } from '../core/lock.errors.js';
import { shortened } from '../core/read-options.js';
import {
  checkListOptions,
  type JobOfKey,
  type LastRun,
  listJobs,
  listLocks,
  type ListOptions,
  type LockState,
  type UnreadableKey,
} from '../core/store/lock-state.js';
import { LISTING } from '../core/store/subject.js';
import { type SingleClient } from './client/redis-client.js';
import { type RedisKeys } from './codec/redis-keys.js';
import { type Connection } from './connection/connection.js';
import { OLD_DATA_ADVICE } from './connection/error-advice.js';
import { OPERATOR_TIMEOUT_MS } from './timing.js';

/**
 * Finds the keys of locks, held or not, that begin with `prefix` and contain `contains`, by SCAN on all nodes; each key once, although
 * SCAN may repeat it. `listLocks` of the core decides which of them to list. `maxAnswers`: the limit of answers per node; by
 * default, enough for a billion keys.
 */
export async function* scanKeys(
  commands: Connection,
  keys: RedisKeys,
  wanted: Wanted,
  maxAnswers = 1_000_000,
): AsyncGenerator<string> {
  const progress: Progress = { seen: new Set(), newEnd: () => new EndOfScan(wanted.prefix, maxAnswers), at: undefined };
  try {
    yield* scanNodes(commands, keys, wanted, progress);
  } catch (error) {
    // Another node may have replaced the failed one.
    if (!(await isReplaced(commands, progress.at))) throw error;
    yield* scanNodes(commands, keys, wanted, progress);
  }
}

/** The keys to find. */
interface Wanted {
  readonly prefix: string;
  readonly contains?: string | undefined;
  /** How long each answer may take. */
  readonly timeoutMs?: number | undefined;
}

/** How far a scan has come. */
interface Progress {
  readonly seen: Set<string>;
  readonly newEnd: () => EndOfScan;
  /** The present node of a cluster. */
  at: SingleClient | undefined;
}

/** Whether another master has replaced that node in the cluster. */
async function isReplaced(commands: Connection, node: SingleClient | undefined): Promise<boolean> {
  const client = commands.liveClient();
  if (!node || !client.isCluster) return false;
  const refresh = () => new Promise<void>((resolve) => client.refreshSlots(resolve));
  const request = { subject: 'CLUSTER SLOTS', timeoutMs: OPERATOR_TIMEOUT_MS };
  await commands.send(refresh, request).catch(() => undefined);
  return !client.nodes('master').includes(node);
}

async function* scanNodes(
  commands: Connection,
  keys: RedisKeys,
  { prefix, contains = '', timeoutMs = OPERATOR_TIMEOUT_MS }: Wanted,
  progress: Progress,
): AsyncGenerator<string> {
  const { seen, newEnd } = progress;
  const client = commands.liveClient();
  const pattern = keys.pattern(prefix, contains);
  const request = { subject: LISTING, timeoutMs };
  // A cluster has all its nodes when it is ready.
  const nodes: readonly SingleClient[] = client.isCluster
    ? await commands.send(async () => client.nodes('master'), request)
    : [client];
  for (const node of nodes) {
    const to = { node: client.isCluster ? node : undefined };
    progress.at = to.node;
    let cursor = '0';
    const end = newEnd();
    do {
      const scan = () => node.scan(cursor, pattern, KEYS_PER_SCAN);
      const [next, found] = await commands.send(scan, { ...request, ...to });
      // The key of the history is not a lock.
      const named = found.map((stored) => keys.keyOf(stored));
      const isWanted = (name: string): boolean =>
        name !== '' && name.startsWith(prefix) && name.includes(contains) && !seen.has(name);
      for (const key of new Set(named.filter(isWanted))) {
        seen.add(key);
        yield key;
      }
      end.check(next);
      cursor = next;
    } while (cursor !== '0');
  }
}

/** The number of keys that a server scans per answer. */
const KEYS_PER_SCAN = 1_000;

/** A cursor may come twice while the server changes the size of its table. */
const MAX_REPEATS = 100;

/**
 * Ends a SCAN that would not end: the server repeats the same cursors, or sends new ones endlessly. Remembers one cursor
 * at a time, and another one each time their number has doubled: any cycle returns to one of them (Brent's algorithm).
 */
class EndOfScan {
  #count = 0;
  #repeats = 0;
  #remembered = '';

  constructor(
    private readonly prefix: string,
    private readonly maxAnswers: number,
  ) {}

  /** @throws LockStoreError when the scan does not end */
  check(cursor: string): void {
    if (cursor === this.#remembered) this.#repeats += 1;
    if (this.#repeats > MAX_REPEATS || this.#count >= this.maxAnswers) throw endlessError(this.prefix);
    this.#count += 1;
    if (Number.isInteger(Math.log2(this.#count)) && this.#repeats === 0) this.#remembered = cursor;
  }
}

const endlessError = (prefix: string): LockStoreError =>
  new LockStoreError(
    `Redis sends cursors of SCAN without end when asked to list the locks that begin with "${shortened(prefix)}". Check what ` +
      'answers there.',
  );

/** What a list needs from a store. */
interface Listed {
  scan(prefix: string, contains?: string): AsyncIterable<string>;
  inspect(key: string): Promise<LockState>;
  runs(key: string): Promise<readonly LastRun[]>;
}

export function listOf(store: Listed, options: ListOptions): AsyncIterable<LockState> {
  checkListOptions(options);
  const inspect = (key: string) => store.inspect(key).catch((error: Error) => unreadable(key, error));
  return listLocks(store.scan(options.prefix, options.contains), options.limit, inspect);
}

export const jobsOf = (store: Listed, { prefix, limit }: ListOptions): AsyncIterable<JobOfKey | UnreadableKey> =>
  listJobs(store.scan(prefix), limit, (key) => store.runs(key).catch((error: Error) => unreadable(key, error)));

/**
 * Why the data of a key cannot be read; undefined for a key of another type: data of another program has the same prefix. Any other
 * error concerns the whole list.
 */
function unreadable(key: string, error: Error): UnreadableKey | undefined {
  if (!(error instanceof LockStoreError) || error.retryable) throw error;
  if (/\bWRONGTYPE\b/.test(error.message)) return undefined;
  if (/\bOLDDATA\b/.test(error.message)) return { key, problem: OLD_DATA_ADVICE };
  if (!/\bNEWERDATA\b|none of its scripts can send/.test(error.message)) throw error;
  return { key, problem: 'A newer version of nestjs-redis-lock has written this lock, or something else has.' };
}
