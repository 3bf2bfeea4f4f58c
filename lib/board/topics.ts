import { EventListeners } from '../core/event-listeners.js';
import { HISTORY_LIMIT, type LockHistoryEntry } from '../core/history/history-entry.js';
import { lossOf } from '../core/history/lock-history.js';
import { LockStoreError } from '../core/lock.errors.js';
import { type LockEvents } from '../core/lock.events.js';
import {
  type JobOfKey,
  type LastRun,
  type LockHolder,
  type LockState,
  type LockWaiter,
  readAt,
  type UnreadableKey,
} from '../core/store/lock-state.js';
import { checkKeyOf, hasFires, type OperatorStore } from '../core/store/capabilities.js';
import { type LockStore } from '../core/store/lock-store.js';
import { type Job } from '../interceptor/jobs.js';
import { type RedisLockService } from '../redis-lock.service.js';
import { blockingTree } from './blocking.js';
import {
  type BoardQuery,
  callerView,
  instanceOf,
  isCaller,
  isEntry,
  isLock,
  JOB_SORTS,
  type Place,
  SORTS,
} from './query.js';

/** The number of holders and waiters per lock, in a list and on the page of a lock. */
const SHOWN_IN_LIST = 20;
const SHOWN_OF_ONE = 1_000;

/** The number of locks that one answer reads, and that a page of a list has. */
const MAX_READ = 10_000;
const LOCKS_PER_PAGE = 500;
const MAX_JOBS = 200;

const MAX_LOSSES = 200;

/** The number of entries on a page of the history, of all locks and of one. */
const ENTRIES_PER_PAGE = 200;
const ENTRIES_OF_ONE = 50;

/** The number of entries that one search reads: they all come from Redis. */
const ENTRIES_SEARCHED = 2_000;

// What a page gets. Times are milliseconds, which the page advances; tokens are texts, since the page only shows them.

/** A lock with at most `shown` holders and waiters. */
function lockView(state: LockState, shown: number) {
  const { key, mode, waiters, permits, holders, queue, fencingToken, problem = '' } = state;
  const nowMs = readAt(state);
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
      // null: the end of its wait is unknown.
      return { ...caller, place, waitedMs, leftMs: until && Math.max(0, until.getTime() - nowMs) };
    }),
  };
}

/** An entry of the history. Missing values are empty, or null. */
function entryView(entry: LockHistoryEntry) {
  const { id, at, event, key, where = '', note = '', mode = '', ms = null, reason = '', by = '', count = null } = entry;
  const token = String(entry.fencingToken ?? '');
  return {
    id,
    at: at.getTime(),
    event,
    key,
    instance: instanceOf(entry),
    where,
    note,
    mode,
    ms,
    reason,
    by,
    token,
    count,
  };
}

/** Remembers the last losses of this instance, the latest first, as entries of a history. */
export class OwnLosses {
  readonly all: LockHistoryEntry[] = [];
  readonly #listeners: EventListeners;

  readonly instance: string;

  constructor(events: LockEvents, { host, pid }: { readonly host: string; readonly pid: number }) {
    this.instance = instanceOf({ host, pid });
    this.#listeners = new EventListeners(events).on('lost', (event) => {
      const id = `${event.attempt} ${event.fencingToken}`;
      this.all.unshift({ ...lossOf(event), host, pid, id, at: new Date() });
      this.all.splice(MAX_LOSSES);
    });
  }

  stop(): void {
    this.#listeners.stop();
  }
}

/** The sources of the topics. The store, not the service, lists the locks: its answer does not depend on the instance. */
interface Sources {
  readonly service: Pick<RedisLockService, 'lastRun' | 'history'>;
  /** `jobs` lists the jobs of all apps that have run, if the store can. */
  readonly store: LockStore & OperatorStore;
  /** Whether there is a history: without one, Redis is not asked for it. */
  readonly hasHistory: boolean;
  readonly jobs: readonly Job[];
  readonly losses: Pick<OwnLosses, 'all' | 'instance'>;
}

export class BoardTopics {
  constructor(private readonly sources: Sources) {}

  read(query: BoardQuery): Promise<object> {
    return this[query.view](query);
  }

  async locks(query: BoardQuery): Promise<object> {
    const { states, counts } = await this.#states(query);
    const rank = SORTS[(query.sort || 'key') as keyof typeof SORTS];
    const direction = query.isReversed ? -1 : 1;
    const compare = ([a, one]: Place, [b, other]: Place): number =>
      direction * (a - b || (one < other ? -1 : Number(one > other)));
    const placeOf = (state: LockState): Place => [rank(state), state.key];
    const rest = states
      .filter((state) => !query.after || compare(placeOf(state), query.after) > 0)
      .sort((a, b) => compare(placeOf(a), placeOf(b)));
    const shown = rest.slice(0, LOCKS_PER_PAGE);
    const next = rest.length > shown.length ? placeOf(shown.at(-1)!).join(' ') : null;
    return { locks: shown.map((state) => lockView(state, SHOWN_IN_LIST)), next, ...counts };
  }

  async instances(query: BoardQuery): Promise<object> {
    const { states, counts } = await this.#states(query);
    const found = new Map<
      string,
      { holds: number; waits: number; heldMs: number; waitedMs: number; keys: Set<string> }
    >();
    const of = (caller: LockHolder | LockWaiter, { key }: LockState) => {
      const one = found.get(instanceOf(caller)) ?? { holds: 0, waits: 0, heldMs: 0, waitedMs: 0, keys: new Set() };
      found.set(instanceOf(caller), one);
      one.keys.add(key);
      return one;
    };
    for (const state of states) {
      for (const holder of state.holders.filter((one) => isCaller(query, one))) {
        const one = of(holder, state);
        one.holds += 1;
        one.heldMs = Math.max(one.heldMs, readAt(state) - holder.since.getTime());
      }
      for (const waiter of state.queue.filter((one) => isCaller(query, one))) {
        const one = of(waiter, state);
        one.waits += 1;
        one.waitedMs = Math.max(one.waitedMs, readAt(state) - waiter.since.getTime());
      }
    }
    const instances = [...found].map(([instance, { keys, ...one }]) => {
      return { instance, ...one, keys: [...keys].sort().slice(0, 5), keyCount: keys.size };
    });
    return { instances: instances.sort((a, b) => (a.instance < b.instance ? -1 : 1)), ...counts };
  }

  async blocking(query: BoardQuery): Promise<object> {
    const { states, counts } = await this.#states({ ...query, mode: 'waited' });
    return { roots: blockingTree(states, SHOWN_IN_LIST), ...counts };
  }

  async lock(query: BoardQuery): Promise<object> {
    const { store } = this.sources;
    checkKeyOf(store, query.key);
    const [state, history] = await Promise.all([
      store.inspect(query.key),
      this.#history(query, ENTRIES_OF_ONE, query.key),
    ]);
    return { lock: lockView(state, SHOWN_OF_ONE), history };
  }

  async history(query: BoardQuery): Promise<object> {
    return { history: await this.#history(query, ENTRIES_PER_PAGE) };
  }

  /** The losses in the history; without one, those of this instance, which the answer names. */
  async losses(query: BoardQuery): Promise<object> {
    const wanted = { ...query, event: 'lost' };
    const history = await this.#history(wanted, ENTRIES_PER_PAGE);
    if (history) return { history, ofInstance: null };
    const { all, instance } = this.sources.losses;
    const entries = all.filter((entry) => isEntry(wanted, entry)).map(entryView);
    return { history: { entries, limit: MAX_LOSSES, searched: null, older: null }, ofInstance: instance };
  }

  /** The jobs of this app with their last run, followed by those of other apps that have run, unless they are sorted. */
  async jobs({ q, instance, sort, isReversed }: BoardQuery): Promise<object> {
    const { jobs } = this.sources;
    const own = jobs.filter(({ name, key }) => `${name}\n${key}`.includes(q));
    const [ofApp, others] = await Promise.all([
      Promise.all(own.slice(0, MAX_JOBS).map((job) => this.#job(job))),
      this.#otherJobs(q),
    ]);
    const all = [...ofApp, ...others].filter(
      ({ last }) => instance === '' || last?.instance.toLowerCase().includes(instance),
    );
    const running = all.find(({ last }) => last?.ended === null);
    const nowMs = running ? await this.#now(running.key) : 0;
    const shown = all.slice(0, MAX_JOBS).map((job) => ({ ...job, last: job.last && runView(job.last, nowMs) }));
    if (sort) {
      const rank = JOB_SORTS[sort as keyof typeof JOB_SORTS];
      const sign = isReversed ? -1 : 1;
      shown.sort((a, b) => sign * (rank(a) < rank(b) ? -1 : Number(rank(a) > rank(b))));
    }
    return { jobs: shown, hasMore: own.length + others.length > MAX_JOBS };
  }

  /** The locks that match a query. They are counted even if the page does not show them. */
  async #states(query: BoardQuery) {
    const states: LockState[] = [];
    let read = 0;
    // One more than needed is read, to detect that there are more.
    for await (const state of this.sources.store.list({ prefix: '', contains: query.q, limit: MAX_READ + 1 })) {
      read += 1;
      if (read <= MAX_READ && isLock(query, state)) states.push(state);
    }
    const held = states.filter(({ mode }) => mode === 'read' || mode === 'write').length;
    const waiting = states.reduce((sum, { waiters }) => sum + waiters, 0);
    return { states, counts: { total: states.length, held, waiting, hasMore: read > MAX_READ, limit: MAX_READ } };
  }

  /** A page of the entries that match a query, with the place of the next older one; null without a history. */
  async #history(query: BoardQuery, limit: number, key?: string) {
    if (!this.sources.hasHistory) return null;
    const { q, holder, instance, event, before } = query;
    const isSearch = `${q}${holder}${instance}${event}` !== '';
    const looks = isSearch ? ENTRIES_SEARCHED : limit + 1;
    const rest = await this.#behind(before, looks, key);
    const entries = rest.slice(0, looks).filter((entry) => isEntry(query, entry));
    const last = entries.length > limit || !isSearch ? entries[Math.min(limit, entries.length) - 1] : rest[looks - 1];
    const isOver = entries.length <= limit && rest.length < looks;
    const older = last && !isOver ? `${last.at.getTime()} ${last.id}` : null;
    return { entries: entries.slice(0, limit).map(entryView), limit, searched: isSearch ? looks : null, older };
  }

  /** Reads at least `wanted` entries behind a place, or all that there are: any number of others may have its time. */
  async #behind(place: BoardQuery['before'], wanted: number, key?: string): Promise<readonly LockHistoryEntry[]> {
    const of = key === undefined ? {} : { key };
    if (!place) return this.sources.service.history({ ...of, limit: wanted });
    for (let limit = wanted + ENTRIES_PER_PAGE; ; limit *= 2) {
      const most = Math.min(limit, HISTORY_LIMIT.max);
      const read = await this.sources.service.history({ ...of, limit: most, before: new Date(place.at + 1) });
      const found = read.findIndex(({ id }) => id === place.id);
      const rest = read.slice(found + 1);
      if (read.length < most) return rest;
      // An entry that the history has dropped is not found.
      const isReached = found >= 0 || read.at(-1)!.at.getTime() < place.at;
      if (isReached && rest.length >= wanted) return rest;
      if (most === HISTORY_LIMIT.max) return isReached ? rest : [];
    }
  }

  async #job({ name, key, nextMs }: Job) {
    const nowMs = Date.now();
    const next = nextMs(nowMs);
    const job = { name, key, isOwn: true, next, nextInMs: next === null ? null : Math.max(0, next - nowMs) };
    try {
      return { ...job, last: await this.sources.service.lastRun(key, name) };
    } catch (error) {
      if (!(error instanceof LockStoreError) || error.retryable) throw error;
      return { ...job, last: null, problem: error.message };
    }
  }

  async #otherJobs(q: string) {
    const { jobs: own, store } = this.sources;
    const others: (JobOfKey | UnreadableKey)[] = [];
    const idOf = (one: JobOfKey | UnreadableKey): string => `${'job' in one ? one.job : ''} ${one.key}`;
    // One more than is shown is read, to detect that there are more.
    for await (const found of (hasFires(store) && store.jobs?.({ prefix: '', limit: MAX_JOBS + own.length + 1 })) ||
      []) {
      const isOwn = 'problem' in found ? () => true : (name: string) => name === found.job;
      const isKnown = own.some(({ key, name }) => key === found.key && isOwn(name));
      if (!isKnown && idOf(found).includes(q)) others.push(found);
    }
    others.sort((a, b) => (idOf(a) < idOf(b) ? -1 : 1));
    return others.map((one) => {
      const job = { key: one.key, isOwn: false, next: null, nextInMs: null };
      return 'problem' in one
        ? { name: '', ...job, last: null, problem: one.problem }
        : { name: one.job, ...job, last: one };
    });
  }

  /** The time of the store, which is the reason to read this lock. */
  async #now(key: string): Promise<number> {
    return this.sources.store.inspect(key).then(readAt, () => Date.now());
  }
}

const runView = ({ fire, instance, started, ended, outcome }: LastRun, nowMs: number) => ({
  fire: fire.getTime(),
  instance,
  outcome,
  ranMs: Math.max(0, (ended?.getTime() ?? nowMs) - started.getTime()),
});
