import { randomBytes } from 'node:crypto';
import { type LastRun, LockKeyError, type LockState, LockStoreError } from 'nestjs-redis-lock';
import {
  type AcquireReply,
  type AcquireRequest,
  type AdoptReply,
  type AdoptRequest,
  type Clock,
  type ListOptions,
  type LockStore,
  type ReleaseReply,
  type ReleaseRequest,
  type RenewReply,
  type RenewRequest,
  type WakeUpListener,
} from 'nestjs-redis-lock/store';
import { LockDatabase } from './database.js';
import { lastRunOf, stateOf } from './reports.js';
import { acquire, adopt, forceRelease, release, renew, setPermits } from './rules.js';
import { Watch } from './watch.js';

const MAX_KEY_BYTES = 1_024;

export interface SqliteLockStoreOptions {
  readonly keyPrefix?: string;
  /** How long the last fencing token of an unused lock is remembered at least, in milliseconds. */
  readonly keepMs?: number;
  /** How often a process checks whether it is the turn of one of its calls, in milliseconds. */
  readonly pollMs?: number;
  readonly clock?: Clock;
}

const SYSTEM_CLOCK: Clock = {
  now: () => performance.now(),
  wallNow: () => Date.now(),
  setTimer(callback, delayMs) {
    const timer = setTimeout(callback, delayMs);
    timer.unref();
    return () => clearTimeout(timer);
  },
};

/**
 * Keeps locks in an SQLite file, for the processes of one machine:
 * `RedisLockModule.forRoot({ store: (context) => new SqliteLockStore(file, context) })`
 */
export class SqliteLockStore implements LockStore {
  readonly clientId = randomBytes(9).toString('base64url');
  readonly keyPrefix: string;
  readonly #keepMs: number;
  readonly #clock: Clock;
  readonly #watch: Watch;
  #database: LockDatabase | undefined;
  #isOpen = false;
  #isClosed = false;

  constructor(
    private readonly file: string,
    { keyPrefix = 'lock:', keepMs = 600_000, pollMs = 20, clock = SYSTEM_CLOCK }: SqliteLockStoreOptions = {},
  ) {
    this.keyPrefix = keyPrefix;
    this.#keepMs = keepMs;
    this.#clock = clock;
    this.#watch = new Watch({ clock, pollMs, database: () => this.#opened() });
  }

  checkKey(key: string): void {
    const isText = typeof key === 'string' && key !== '' && !/\p{Surrogate}/u.test(key);
    if (isText && Buffer.byteLength(key) <= MAX_KEY_BYTES) return;
    throw new LockKeyError(`Expected a lock key to be a well-formed text of 1 to ${MAX_KEY_BYTES} bytes.`);
  }

  listen(listener: WakeUpListener): void {
    this.#watch.listener = listener;
  }

  /** If the database cannot be opened, the first command tries again, and its caller gets the error. */
  open(): void {
    if (this.#isOpen || this.#isClosed) return;
    this.#isOpen = true;
    // Deferred: the module does not expect it before `open` has returned.
    void Promise.resolve().then(() => this.#watch.listener?.onListening());
  }

  /** One transaction can lock all keys; the order of their bytes is the same for every client. */
  groups(keys: readonly string[]): readonly (readonly string[])[] {
    return [[...new Set(keys)].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)))];
  }

  async acquire({ claim, ...request }: AcquireRequest): Promise<AcquireReply> {
    this.open();
    const { attempt } = request;
    const keys = request.keys.map((key) => this.keyPrefix + key);
    const aged = claim && { ...claim, ageMs: Math.round(this.#clock.now() - claim.calledAt) };
    const reply = this.#run(request.keys.join(', '), (database) =>
      database.change(keys, (records, now) => acquire(records, { ...request, claim: aged }, now)),
    );
    const isThere = reply.outcome === 'granted' || (reply.outcome === 'busy' && request.waiterLeaseMs > 0);
    if (isThere) this.#watch.add(attempt, keys);
    else this.#watch.remove(attempt, keys);
    return reply;
  }

  async renew(requests: readonly RenewRequest[]): Promise<readonly RenewReply[]> {
    return requests.map((request) => {
      try {
        return this.#change(request.key, (record, now) => renew(record, request, now));
      } catch (cause) {
        return { outcome: 'unknown', cause };
      }
    });
  }

  async release(request: ReleaseRequest): Promise<ReleaseReply> {
    const { key, attempt } = request;
    const reply = this.#change(key, (record, now, wereHeld) => release(record, request, wereHeld.has(attempt), now));
    this.#watch.remove(attempt, [this.keyPrefix + key]);
    return reply;
  }

  async adopt(request: AdoptRequest): Promise<AdoptReply> {
    const { key, attempt, from } = request;
    const reply = this.#change(key, (record, now) => adopt(record, request, now));
    const stored = [this.keyPrefix + key];
    this.#watch.remove(from, stored);
    if (reply.outcome === 'adopted') this.#watch.add(attempt, stored);
    return reply;
  }

  async forceRelease(key: string, upToToken = Infinity): Promise<boolean> {
    return this.#change(key, (record) => forceRelease(record, upToToken));
  }

  async setPermits(key: string, permits: number | null): Promise<void> {
    return this.#change(key, (record) => setPermits(record, permits));
  }

  async inspect(key: string): Promise<LockState> {
    return this.#look(key, (record, now) => stateOf(key, record, now));
  }

  async lastRun(key: string, job?: string): Promise<LastRun | null> {
    return this.#look(key, (record) => lastRunOf(record, job));
  }

  async *list({ prefix, contains = '', limit }: ListOptions): AsyncGenerator<LockState> {
    let left = limit;
    for (const stored of this.#run(null, (database) => database.keys(this.keyPrefix + prefix))) {
      const key = stored.slice(this.keyPrefix.length);
      if (!key.includes(contains)) continue;
      const state = await this.inspect(key);
      if (state.mode === 'free' && state.waiters === 0) continue;
      yield state;
      left -= 1;
      if (left === 0) return;
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#watch.stop();
    this.#database?.close();
    this.#database = undefined;
  }

  #change<T>(key: string, work: (record: Parameters<typeof release>[0], now: number, wereHeld: Set<string>) => T): T {
    const changed = this.#run(key, (database) =>
      database.change([this.keyPrefix + key], ([record], now, wereHeld) => work(record!, now, wereHeld)),
    );
    this.#watch.changed();
    return changed;
  }

  #look<T>(key: string, work: (record: Parameters<typeof release>[0], now: number) => T): T {
    return this.#run(key, (database) => database.look(this.keyPrefix + key, work));
  }

  /**
   * Every error becomes a `LockStoreError`; `key` is null when it is about no single lock. A transaction that has not begun has changed nothing: the call may try again, or end
   * without a release. After any other error, the outcome is unknown.
   */
  #run<T>(key: string | null, work: (database: LockDatabase) => T): T {
    try {
      return work(this.#opened());
    } catch (cause) {
      const reason = cause instanceof Error ? cause.message : String(cause);
      const what = key === null ? 'The locks could not be listed' : `The lock "${key}" could not be asked for`;
      const text = `${what}: ${reason}.`;
      const isBusy = String((cause as { code?: unknown }).code).startsWith('SQLITE_BUSY');
      throw new LockStoreError(text, {
        key: key ?? undefined,
        cause,
        retryable: !this.#isClosed,
        wasSent: !isBusy && !this.#isClosed,
      });
    }
  }

  #opened(): LockDatabase {
    if (this.#isClosed) throw new Error('the store was closed');
    this.#database ??= new LockDatabase(this.file, this.#keepMs, () => this.#clock.wallNow());
    return this.#database;
  }
}
