import { systemClock } from '../clock.js';
import { isWellFormed } from '../key.js';
import { type LockMode } from '../lock.errors.js';
import { refuse } from '../read-options.js';
import { type LockCaller } from './holder-text.js';

/** One holder of a lock, as `inspect` reports it. */
export interface LockHolder extends LockCaller {
  readonly owner: string;
  readonly attempt: string;
  readonly mode: LockMode;
  /** The number of permits that it takes, if the lock is a semaphore. */
  readonly take: number;
  /** When it was granted, by the store's clock. */
  readonly since: Date;
  readonly remainingMs: number;
  /** 0 if the holder has released the lock, which stays taken until `holdAtLeastMs` is over. */
  readonly fencingToken: number;
}

/** One place in the queue of a lock, as `inspect` reports it. */
export interface LockWaiter extends LockCaller {
  readonly owner: string;
  readonly attempt: string;
  readonly mode: LockMode;
  /** The number of permits that it will take, if the lock is a semaphore. */
  readonly take: number;
  /** Its place in the queue, from 1. */
  readonly place: number;
  /** When it began to wait, by the store's clock. */
  readonly since: Date;
  /** When it gives up, by the store's clock; null: it waits forever, or the time is unknown. */
  readonly until: Date | null;
}

/** The permits of a semaphore. */
export interface LockPermits {
  /** The number of permits: that of `setPermits`, otherwise that of the present reader that was granted last. */
  readonly allowed: number;
  /** The number that the present holders take; more than `allowed` after the number was lowered. */
  readonly used: number;
  /** The number of free permits; 0 while a writer holds the lock. */
  readonly available: number;
}

/** The state of one lock at one moment. */
export interface LockState {
  readonly key: string;
  /** `free`, or how it is held. `unknown`: see `problem`. */
  readonly mode: LockMode | 'free' | 'unknown';
  readonly holders: readonly LockHolder[];
  /**
   * The number of waiting calls. A store counts the places in its queue: the callers of a process that hand the lock to each other
   * share one place. The service adds the other callers of its own process.
   */
  readonly waiters: number;
  /**
   * The places in the queue of the store, first to last. The callers of a process that hand the lock to each other share a place,
   * which names the first of them.
   */
  readonly queue: readonly LockWaiter[];
  /** The permits of a semaphore; null if unknown: the key is not a semaphore, or it is not held. */
  readonly permits: LockPermits | null;
  /** The last fencing token that was granted; 0 if none is remembered. */
  readonly fencingToken: number;
  /** When it was read, by the store's clock: use it to compute the ages of holders and waiters. A store may leave it out. */
  readonly readAt?: Date;
  /** Only in lists: why this lock cannot be read; its other fields are unknown then. `inspect` rejects. */
  readonly problem?: string;
}

/** When a lock was read, by the clock of its store, if it has one. */
export const readAt = ({ readAt: at }: LockState): number => at?.getTime() ?? systemClock.wallNow();

/** A key in a list whose data cannot be read, with the reason. */
export interface UnreadableKey {
  readonly key: string;
  readonly problem: string;
}

/** The last run of a job that is claimed once per fire. */
export interface LastRun {
  /** The name of the job: its option `job`, or `Class.method` with the class of its instance. */
  readonly job: string;
  /** The nominal time of the fire, or the start of its slot. */
  readonly fire: Date;
  /** The instance of the run: `host:pid`. */
  readonly instance: string;
  /** The attempt of the run. */
  readonly attempt: string;
  /** The start of the run, by the store's clock. */
  readonly started: Date;
  readonly ended: Date | null;
  /** `lost`: the run began, and its lock ended before the run reported its outcome. */
  readonly outcome: 'running' | 'done' | 'failed' | 'lost';
}

/** The mode of a lock with these holders. */
export function modeOf(holders: readonly { readonly mode: LockMode }[]): LockState['mode'] {
  if (holders.length === 0) return 'free';
  return holders.some(({ mode }) => mode === 'write') ? 'write' : 'read';
}

/** The permits of a lock with these holders; `allowed` is 0 if unknown, unless an operator has set it. */
export function permitsOf(
  holders: readonly Pick<LockHolder, 'mode' | 'take'>[],
  allowed: number,
  isSet: boolean,
): LockPermits | null {
  const readers = holders.filter(({ mode }) => mode === 'read');
  if (!isSet && (allowed === 0 || readers.length === 0)) return null;
  const used = readers.reduce((sum, { take }) => sum + take, 0);
  const isFree = readers.length === holders.length;
  return { allowed, used, available: isFree ? Math.max(allowed - used, 0) : 0 };
}

/** Which locks to list: those whose key begins with `prefix` and contains `contains`, at most `limit`. */
export interface ListOptions {
  readonly prefix: string;
  readonly contains?: string;
  readonly limit: number;
}

/** The names of the options of `list`. */
export const LIST_OPTION_NAMES = ['prefix', 'contains', 'limit'] satisfies readonly (keyof ListOptions)[];

/** @throws LockConfigurationError */
export function checkListOptions({ prefix, contains = '', limit }: ListOptions): void {
  for (const [name, text] of Object.entries({ prefix, contains })) {
    if (typeof text !== 'string' || !isWellFormed(text)) refuse(name, text, 'a well-formed string');
  }
  if (!Number.isSafeInteger(limit) || limit < 1) {
    refuse('limit', limit, 'a whole number from 1');
  }
}

const NOTHING_KNOWN = {
  mode: 'unknown',
  holders: [],
  waiters: 0,
  queue: [],
  permits: null,
  fencingToken: 0,
} satisfies Partial<LockState>;

/** Yields the locks of these keys that are held or waited for, and those that cannot be read. A free lock is stored only to remember its token. */
export async function* listLocks(
  keys: AsyncIterable<string> | Iterable<string>,
  limit: number,
  inspect: (key: string) => Promise<LockState | UnreadableKey | undefined>,
): AsyncGenerator<LockState> {
  let count = 0;
  for await (const state of eachOf(keys, inspect)) {
    if (!state || ('mode' in state && state.mode === 'free' && state.waiters === 0)) continue;
    yield 'mode' in state ? state : { ...NOTHING_KNOWN, ...state };
    count += 1;
    if (count >= limit) return;
  }
}

/** The last run of a job, and the key of its lock. */
export interface JobOfKey extends LastRun {
  readonly key: string;
}

/** Yields the last run of each job of these keys, and the keys that cannot be read; at most `limit`. A job is stored with the lock of its key, held or not. */
export async function* listJobs(
  keys: AsyncIterable<string>,
  limit: number,
  runsOf: (key: string) => Promise<readonly LastRun[] | UnreadableKey | undefined>,
): AsyncGenerator<JobOfKey | UnreadableKey> {
  let count = 0;
  const jobsOf = async (key: string): Promise<readonly (JobOfKey | UnreadableKey)[]> => {
    const found = (await runsOf(key)) ?? [];
    return 'problem' in found ? [found] : found.map((run) => ({ key, ...run }));
  };
  for await (const found of eachOf(keys, jobsOf)) {
    for (const job of found) {
      yield job;
      count += 1;
      if (count >= limit) return;
    }
  }
}

/** The number of keys that are read at a time. */
const KEYS_AT_A_TIME = 50;

/** What is read of each key, in their order: several are read at a time, because most locks are free. */
async function* eachOf<T>(
  keys: AsyncIterable<string> | Iterable<string>,
  read: (key: string) => Promise<T>,
): AsyncGenerator<T> {
  let group: string[] = [];
  for await (const key of keys) {
    group.push(key);
    if (group.length < KEYS_AT_A_TIME) continue;
    yield* await Promise.all(group.map(read));
    group = [];
  }
  yield* await Promise.all(group.map(read));
}

/** Sorts runs by their start, the latest first. */
export const byStart = (a: LastRun, b: LastRun): number =>
  b.started.getTime() - a.started.getTime() || b.fire.getTime() - a.fire.getTime() || (a.job < b.job ? -1 : 1);

/** Returns the run of this job; without `job`, the run that began last. `runs` has the last run of each job. */
export const lastRunOf = (runs: readonly LastRun[], job?: string): LastRun | null =>
  runs.filter((run) => job === undefined || run.job === job).sort(byStart)[0] ?? null;
