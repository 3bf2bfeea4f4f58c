import { type Clock, systemClock } from '../core/clock.js';
import {
  isWanted,
  type LockHistoryBatch,
  type LockHistoryEntry,
  type LockHistoryQuery,
  type LockHistoryStore,
  newestFirst,
} from '../core/history/history-entry.js';
import { encodeKey, inOrder, storedKey } from '../core/key.js';
import { LockStoreError } from '../core/lock.errors.js';
import { systemRandomness } from '../core/randomness.js';
import { nextTurn } from '../core/runtime.js';
import { newClientId } from '../core/store/attempt-ids.js';
import {
  type AdoptingStore,
  type FireStore,
  type HistoryStore,
  type OperatorStore,
  type PermitStore,
} from '../core/store/capabilities.js';
import {
  checkListOptions,
  type LastRun,
  lastRunOf,
  type ListOptions,
  listLocks,
  type LockState,
} from '../core/store/lock-state.js';
import {
  type AcquireReply,
  type AcquireRequest,
  type AdoptReply,
  type AdoptRequest,
  type LockStore,
  type ReleaseReply,
  type ReleaseRequest,
  type RenewReply,
  type RenewRequest,
  type WakeUp,
  type WakeUpListener,
} from '../core/store/lock-store.js';
import { keyOfSubject, LISTING, READING_HISTORY, type Subject, WRITING_HISTORY } from '../core/store/subject.js';
import { MemoryLocks } from './memory-locks.js';

/** The options of `MemoryLockServer`. */
export interface MemoryLockServerOptions {
  /** @default the clock of the process */
  readonly clock?: Clock;
}

/**
 * An in-memory substitute for a Redis: apps of one process that use the same server share their locks. It is as strict as Redis
 * about leases, queues, tokens and wake-ups, and can be stopped to test how an app reacts.
 */
export class MemoryLockServer {
  readonly clock: Clock;
  /** Internal: the locks of the stores. */
  readonly locks: MemoryLocks;
  /** Internal: the histories of the locks, by the prefix of their keys. */
  readonly histories = new Map<string, MemoryHistory>();
  readonly #listeners = new Map<string, WakeUpListener>();
  #isStopped = false;

  constructor({ clock = systemClock }: MemoryLockServerOptions = {}) {
    this.clock = clock;
    this.locks = new MemoryLocks({
      now: () => Math.floor(clock.wallNow()),
      hears: (attempt) => this.#listeners.has(clientOf(attempt)),
      notify: (attempt, wakeUp) => this.#notify(attempt, wakeUp),
    });
  }

  /** Stops the server: until `start`, commands fail with a `LockStoreError` and no wake-ups are sent. Locks are kept. */
  stop(): void {
    this.#isStopped = true;
  }

  /** Starts the server again, with all locks whose leases are not over. */
  start(): void {
    if (!this.#isStopped) return;
    this.#isStopped = false;
    for (const listener of this.#listeners.values()) listener.onMessagesMissed();
  }

  /** Runs one command; internal. @throws LockStoreError while the server is stopped */
  async run<T>(subject: Subject, command: (locks: MemoryLocks) => T): Promise<T> {
    // As with a real server, nothing happens in the turn of the caller, and other calls have their turn before the reply.
    await nextTurn();
    if (this.#isStopped) {
      throw new LockStoreError(`${commandText(subject)}: the MemoryLockServer is stopped. Call its start().`, {
        key: keyOfSubject(subject),
      });
    }
    this.locks.forgetUnused();
    return command(this.locks);
  }

  /** Sends wake-ups to a store until the returned function is called; internal. */
  connect(clientId: string, listener: WakeUpListener): () => void {
    this.#listeners.set(clientId, listener);
    void Promise.resolve().then(() => this.#listeners.get(clientId)?.onListening());
    return () => this.#listeners.delete(clientId);
  }

  /** Messages take time: the listener is called in a later turn. */
  #notify(attempt: string, wakeUp: WakeUp): void {
    const listener = this.#listeners.get(clientOf(attempt));
    void Promise.resolve().then(() => {
      if (!this.#isStopped) listener?.onWakeUp(attempt, wakeUp);
    });
  }
}

const clientOf = (attempt: string): string => attempt.split('.')[0]!;

const commandText = (subject: Subject): string =>
  typeof subject === 'string' ? `No command reaches the lock "${subject}"` : `The store cannot ${subject.task}`;

/** The options of `MemoryLockStore`. */
export interface MemoryLockStoreOptions {
  /**
   * Stores with different prefixes have different locks, even on one server.
   * @default 'lock:'
   */
  readonly keyPrefix?: string;
  /**
   * The minimum time for which the last fencing token of an unused lock is remembered, in milliseconds.
   * @default 600_000
   */
  readonly keepMs?: number;
}

/** A `LockStore` on a `MemoryLockServer`; represents one instance of an app. */
export class MemoryLockStore implements LockStore, AdoptingStore, PermitStore, FireStore, OperatorStore, HistoryStore {
  readonly clientId = newClientId(systemRandomness);
  readonly reservesTokens = true;
  readonly keyPrefix: string;
  readonly history: LockHistoryStore = {
    append: (batch) => {
      // Read now, because the command has to wait for its turn.
      const now = this.server.clock.wallNow();
      return this.run(WRITING_HISTORY, () => this.#history.append(batch, now));
    },
    read: (query) => this.run(READING_HISTORY, () => this.#history.read(query, this.server.clock.wallNow())),
  };
  readonly #keepMs: number;
  #listener: WakeUpListener | null = null;
  #disconnect: (() => void) | null = null;
  /** Internal: whether it is closed; a fake can reopen. */
  protected isClosed = false;

  constructor(
    readonly server: MemoryLockServer,
    { keyPrefix = 'lock:', keepMs = 600_000 }: MemoryLockStoreOptions = {},
  ) {
    this.keyPrefix = keyPrefix;
    this.#keepMs = keepMs;
  }

  checkKey(key: string): void {
    storedKey(key);
  }

  listen(listener: WakeUpListener): void {
    this.#listener = listener;
  }

  open(): void {
    if (this.#listener && !this.isClosed) this.#disconnect ??= this.server.connect(this.clientId, this.#listener);
  }

  groups(keys: readonly string[]): readonly (readonly string[])[] {
    return [inOrder(keys, encodeKey).map(([, key]) => key)];
  }

  acquire({ claim, ...rest }: AcquireRequest): Promise<AcquireReply> {
    this.open();
    const ageMs = claim ? Math.round(this.server.clock.now() - claim.calledAt) : 0;
    const keys = rest.keys.map((key) => this.keyPrefix + key);
    const request = { ...rest, keys, claim: claim && { ...claim, ageMs } };
    return this.run(rest.keys, (locks) => locks.acquire(request));
  }

  renew(requests: readonly RenewRequest[]): Promise<readonly RenewReply[]> {
    const renewOne = (request: RenewRequest): Promise<RenewReply> =>
      this.run(request.key, (locks) => locks.renew(this.#stored(request))).catch((cause: unknown) => ({
        outcome: 'unknown',
        cause,
      }));
    return Promise.all(requests.map(renewOne));
  }

  release(request: ReleaseRequest): Promise<ReleaseReply> {
    return this.run(request.key, (locks) => locks.release(this.#stored(request)));
  }

  adopt(request: AdoptRequest): Promise<AdoptReply> {
    this.open();
    return this.run(request.key, (locks) => locks.adopt(this.#stored(request)));
  }

  forceRelease(key: string, upToToken?: number): Promise<boolean> {
    return this.run(key, (locks) => locks.forceRelease(this.keyPrefix + key, upToToken));
  }

  setPermits(key: string, permits: number | null): Promise<void> {
    return this.run(key, (locks) => locks.setPermits(this.keyPrefix + key, permits ?? undefined));
  }

  inspect(key: string): Promise<LockState> {
    return this.run(key, (locks) => locks.inspect(this.keyPrefix + key, key));
  }

  lastRun(key: string, job?: string): Promise<LastRun | null> {
    return this.run(key, (locks) => lastRunOf(locks.runs(this.keyPrefix + key), job));
  }

  list(options: ListOptions): AsyncIterable<LockState> {
    checkListOptions(options);
    return listLocks(this.#keys(options), options.limit, (key) => this.inspect(key));
  }

  async *#keys({ prefix, contains = '' }: ListOptions): AsyncGenerator<string> {
    const start = this.keyPrefix + prefix;
    const stored = await this.run(LISTING, ({ all }) => [...all.keys()].filter((key) => key.startsWith(start)));
    const keys = stored.map((key) => key.slice(this.keyPrefix.length));
    yield* keys.filter((key) => key.includes(contains));
  }

  async close(): Promise<void> {
    this.#disconnect?.();
    this.#disconnect = null;
    this.isClosed = true;
  }

  get #history(): MemoryHistory {
    const { histories } = this.server;
    const history = histories.get(this.keyPrefix) ?? new MemoryHistory();
    histories.set(this.keyPrefix, history);
    return history;
  }

  /** Internal: runs one command, for one lock, several, or none. */
  protected async run<T>(about: Subject | readonly string[], command: (locks: MemoryLocks) => T): Promise<T> {
    const subject = subjectOf(about);
    if (this.isClosed) throw closedError(subject);
    return this.server.run(subject, (locks) => {
      locks.keepMs = this.#keepMs;
      return command(locks);
    });
  }

  #stored<T extends { readonly key: string }>(request: T): T {
    return { ...request, key: this.keyPrefix + request.key };
  }
}

/** Several locks are named together. */
export const subjectOf = (about: Subject | readonly string[]): Subject =>
  typeof about === 'string' || 'task' in about ? about : about.join(', ');

/** The error of a closed store, whose connection is closed. */
export const closedError = (subject: Subject): LockStoreError => {
  const what = typeof subject === 'string' ? `The lock "${subject}" could not be requested` : `Cannot ${subject.task}`;
  return new LockStoreError(`${what}: the connection was closed.`, { key: keyOfSubject(subject) });
};

/** The history of the locks whose keys have one prefix. */
class MemoryHistory {
  #entries: readonly LockHistoryEntry[] = [];
  #until = Infinity;

  /** `now`: the time of the server, in milliseconds since the epoch. */
  append({ id, host, pid, maxEntries, keepMs, records, ...batch }: LockHistoryBatch, now: number): void {
    const entries = records.map(({ at, ...facts }, i) => {
      return { id: `${id}.${i}`, at: new Date(now - Math.round(batch.now - at)), host, pid, ...facts };
    });
    const kept = [...this.#kept(now), ...entries].filter(({ at }) => at.getTime() > now - keepMs);
    this.#entries = kept.slice(-maxEntries);
    if (keepMs < Infinity) this.#until = now + keepMs;
    else if (now >= this.#until) this.#until = Infinity;
  }

  read(query: LockHistoryQuery, now: number): readonly LockHistoryEntry[] {
    const entries = this.#kept(now).filter((entry) => isWanted(entry, query));
    return newestFirst(entries.toReversed(), query.limit).map((entry) => ({ ...entry, at: new Date(entry.at) }));
  }

  #kept(now: number): readonly LockHistoryEntry[] {
    return now < this.#until ? this.#entries : [];
  }
}
