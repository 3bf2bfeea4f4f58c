import { EventListeners } from '../core/event-listeners.js';
import { type LockHistoryEntry } from '../core/history/history-entry.js';
import { LockStoreError } from '../core/lock.errors.js';
import { type LockEvents } from '../core/lock.events.js';
import {
  type JobOfKey,
  type LastRun,
  type LockHolder,
  type LockState,
  type LockWaiter,
  type UnreadableKey,
} from '../core/store/lock-state.js';
import { type LockStore } from '../core/store/lock-store.js';
import { type Job } from '../interceptor/jobs.js';
import { type RedisLockService } from '../redis-lock.service.js';

/** How many holders and waiters of a lock a list shows, and how many the page of that lock. */
const SHOWN_IN_LIST = 20;
const SHOWN_OF_ONE = 1_000;

const instanceOf = ({ host, pid }: { readonly host: string; readonly pid: number }): string => `${host}:${pid}`;

const callerView = (caller: LockHolder | LockWaiter, nowMs: number) => {
  const { attempt, where, note, mode, since } = caller;
  const ms = Math.max(0, nowMs - since.getTime());
  return [{ attempt, instance: instanceOf(caller), where, note, mode }, ms] as const;
};

/**
 * A lock, as a page gets it, with at most `shown` holders and waiters. Times are milliseconds, and the page counts them on from there;
 * tokens are texts, since the page only shows them. `nowMs`: the time, since the epoch.
 */
function lockView(state: LockState, shown: number, nowMs: number) {
  const { key, mode, waiters, permits, holders, queue, fencingToken, problem = '' } = state;
  const lock = { key, mode, token: String(fencingToken), waiters, problem, permits };
  return {
    ...lock,
    holderCount: holders.length,
    queueCount: queue.length,
    holders: holders.slice(0, shown).map((holder) => {
      const [caller, heldMs] = callerView(holder, nowMs);
      const { since, remainingMs, fencingToken } = holder;
      return { ...caller, since: since.getTime(), heldMs, remainingMs, token: String(fencingToken) };
    }),
    queue: queue.slice(0, shown).map((waiter) => {
      const [caller, waitedMs] = callerView(waiter, nowMs);
      const { place, until } = waiter;
      // null: it is not known when it gives up.
      return { ...caller, place, waitedMs, leftMs: until && Math.max(0, until.getTime() - nowMs) };
    }),
  };
}

/** An entry of the history, as a page gets it. What it does not report is empty, or null. */
function entryView(entry: LockHistoryEntry) {
  const { id, at, event, key, where = '', note = '', ms = null, reason = '', by = '', count = null } = entry;
  const token = String(entry.fencingToken ?? '');
  return { id, at: at.getTime(), event, key, instance: instanceOf(entry), where, note, ms, reason, by, token, count };
}

/** How many losses an instance remembers, and a page shows. */
const MAX_LOSSES = 200;

/** A loss, as a page gets it; `id` tells it from others. */
function lossView(entry: LockHistoryEntry) {
  const { id, at, key, where = '', mode = '', ms = 0, reason = '', fencingToken = '' } = entry;
  const instance = instanceOf(entry);
  return { id, at: at.getTime(), key, instance, where, mode, heldMs: ms, reason, token: String(fencingToken) };
}

type LossView = ReturnType<typeof lossView>;

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
function allLosses(entries: readonly LockHistoryEntry[], own: readonly LossView[]): LossView[] {
  const losses = new Map<string, LossView>();
  const known = entries.filter(({ event }) => event === 'lost').map(lossView);
  for (const loss of [...known, ...own]) {
    const id = `${loss.key}\n${loss.token}`;
    if (!losses.has(id)) losses.set(id, loss);
  }
  return [...losses.values()].sort((a, b) => b.at - a.at).slice(0, MAX_LOSSES);
}

/** How many locks and jobs the lists show. */
const MAX_LOCKS = 500;
const MAX_JOBS = 200;

/** How many entries the history of all locks has on a page, and that of one lock. */
const MAX_ENTRIES = 200;
const MAX_ENTRIES_OF_ONE = 50;

/** How many entries are searched for losses, each time a page of losses is told: they all come from Redis. */
const ENTRIES_WITH_LOSSES = 2_000;

/** What the topics are read from. */
interface Sources {
  readonly service: Pick<RedisLockService, 'list' | 'inspect' | 'lastRun' | 'history'>;
  /** Whether there is a history to read: without one, Redis is not asked for it. */
  readonly hasHistory: boolean;
  /** The jobs of this app. */
  readonly jobs: readonly Job[];
  /** Finds the jobs of all apps that have run, if it can. */
  readonly store: Pick<LockStore, 'jobs'>;
  readonly losses: Pick<OwnLosses, 'all'>;
}

/** Reads what pages show. */
export class BoardTopics {
  constructor(private readonly sources: Sources) {}

  /** All locks that are held or waited for. */
  async locks(): Promise<object> {
    const locks = [];
    // One more than is shown tells that there are more.
    for await (const state of this.sources.service.list({ limit: MAX_LOCKS + 1 })) {
      locks.push(lockView(state, SHOWN_IN_LIST, Date.now()));
    }
    return { locks: locks.slice(0, MAX_LOCKS), limit: MAX_LOCKS, hasMore: locks.length > MAX_LOCKS };
  }

  /** One lock, with its queue and its history. */
  async lock(key: string): Promise<object> {
    const [state, history] = await Promise.all([
      this.sources.service.inspect(key),
      this.#history(MAX_ENTRIES_OF_ONE, key),
    ]);
    return { lock: lockView(state, SHOWN_OF_ONE, Date.now()), history };
  }

  /** What has happened to all locks. */
  async history(): Promise<object> {
    return { history: await this.#history(MAX_ENTRIES) };
  }

  /** The jobs of this app, and behind them those of other apps that have run, with their last run. */
  async jobs(): Promise<object> {
    const { jobs: own } = this.sources;
    const [ofApp, others] = await Promise.all([
      Promise.all(own.slice(0, MAX_JOBS).map((job) => this.#job(job, Date.now()))),
      this.#otherJobs(),
    ]);
    return { jobs: [...ofApp, ...others].slice(0, MAX_JOBS), hasMore: own.length + others.length > MAX_JOBS };
  }

  /** The losses of all instances, as far as the history tells of them; without a history, those of this instance. */
  async losses(): Promise<object> {
    const { service, hasHistory, losses } = this.sources;
    if (!hasHistory) return { losses: losses.all, limit: MAX_LOSSES, searched: null };
    const entries = await service.history({ limit: ENTRIES_WITH_LOSSES });
    return { losses: allLosses(entries, losses.all), limit: MAX_LOSSES, searched: ENTRIES_WITH_LOSSES };
  }

  /** Resolves to null without a history. */
  async #history(limit: number, key?: string): Promise<object | null> {
    if (!this.sources.hasHistory) return null;
    const query = key === undefined ? { limit } : { key, limit };
    return { entries: (await this.sources.service.history(query)).map(entryView), limit };
  }

  async #job({ name, key, nextMs }: Job, nowMs: number): Promise<object> {
    try {
      const last = await this.sources.service.lastRun(key, name);
      return jobView(name, key, nextMs(nowMs), last, nowMs);
    } catch (error) {
      if (!(error instanceof LockStoreError) || error.retryable) throw error;
      return { ...jobView(name, key, nextMs(nowMs), null, nowMs), problem: error.message };
    }
  }

  async #otherJobs(): Promise<readonly object[]> {
    const { jobs: own, store } = this.sources;
    const others: (JobOfKey | UnreadableKey)[] = [];
    // One more than is shown tells that there are more.
    for await (const found of store.jobs?.({ prefix: '', limit: MAX_JOBS + own.length + 1 }) ?? []) {
      const isOwn = 'problem' in found ? () => true : (name: string) => name === found.job;
      if (!own.some(({ key, name }) => key === found.key && isOwn(name))) others.push(found);
    }
    const idOf = (one: JobOfKey | UnreadableKey): string => `${'job' in one ? one.job : ''} ${one.key}`;
    others.sort((a, b) => (idOf(a) < idOf(b) ? -1 : 1));
    return others.map((one) =>
      'problem' in one
        ? { ...jobView('', one.key, null, null, Date.now()), problem: one.problem }
        : jobView(one.job, one.key, null, one, Date.now()),
    );
  }
}

/** A job, as a page gets it; `next`: when it is due, null when that is not known. */
function jobView(name: string, key: string, next: number | null, last: LastRun | null, nowMs: number): object {
  const nextInMs = next === null ? null : Math.max(0, next - nowMs);
  return { name, key, next, nextInMs, last: last && runView(last, nowMs) };
}

/** A run, as a page gets it. */
function runView({ fire, instance, started, ended, outcome }: LastRun, nowMs: number): object {
  return {
    fire: fire.getTime(),
    instance,
    outcome,
    ranMs: Math.max(0, (ended?.getTime() ?? nowMs) - started.getTime()),
  };
}
