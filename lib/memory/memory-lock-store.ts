import { newClientId, randomAttempt } from '../core/store/attempt-ids.js';
import {
  type AcquireReply,
  type AcquireRequest,
  type AdoptReply,
  type AdoptRequest,
  type HoldRef,
  type LockStore,
  type LostReply,
  type ReleaseReply,
  type ReleaseRequest,
  type RenewReply,
  type RenewRequest,
  type WakeUpListener,
} from '../core/store/lock-store.js';
import { type LastRun, type LockState } from '../core/store/lock-state.js';
import { lastRunOf, type ListOptions, checkListOptions, listLocks } from '../core/store/lock-state.js';
import { LISTING, READING_HISTORY, type Subject, WRITING_HISTORY, keyOfSubject } from '../core/store/subject.js';
import { type LockHistoryStore } from '../core/history/history-entry.js';
import { LockStoreError } from '../core/lock.errors.js';
import { encodeKey, inOrder, storedKey } from '../core/key.js';
import { type MemoryLockServer } from './memory-lock-server.js';
import { KEEP_MS, type MemoryLocks } from './memory-locks.js';
import { runsOf, stateOf } from './memory-state.js';
import { systemRandomness } from '../core/randomness.js';

/** The options of `MemoryLockStore`. */
export interface MemoryLockStoreOptions {
  /**
   * Stores with different prefixes have different locks, even on one server.
   * @default 'lock:'
   */
  readonly keyPrefix?: string;
  /**
   * For at least how long the last fencing token of an unused lock is remembered, in milliseconds.
   * @default 600_000
   */
  readonly keepMs?: number;
}

/** A `LockStore` on a `MemoryLockServer`; stands for one instance of an app. */
export class MemoryLockStore implements LockStore {
  readonly clientId = newClientId(systemRandomness);
  readonly reservesTokens = true;
  readonly keyPrefix: string;
  readonly history: LockHistoryStore = {
    append: (batch) => {
      // Now, since the command has to wait for its turn.
      const now = this.server.clock.wallNow();
      return this.#run(WRITING_HISTORY, () => this.server.history.append(this.keyPrefix, batch, now));
    },
    read: (query) =>
      this.#run(READING_HISTORY, () => this.server.history.read(this.keyPrefix, query, this.server.clock.wallNow())),
  };
  readonly #keepMs: number;
  #listener: WakeUpListener | null = null;
  #disconnect: (() => void) | null = null;
  #isClosed = false;

  constructor(
    readonly server: MemoryLockServer,
    { keyPrefix = 'lock:', keepMs = KEEP_MS }: MemoryLockStoreOptions = {},
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
    if (this.#listener && !this.#isClosed) this.#disconnect ??= this.server.connect(this.clientId, this.#listener);
  }

  groups(keys: readonly string[]): readonly (readonly string[])[] {
    return [inOrder(keys, encodeKey).map(([, key]) => key)];
  }

  acquire({ claim, ...rest }: AcquireRequest): Promise<AcquireReply> {
    this.open();
    const ageMs = claim ? Math.round(this.server.clock.now() - claim.calledAt) : 0;
    const keys = rest.keys.map((key) => this.keyPrefix + key);
    const request = { ...rest, keys, claim: claim && { ...claim, ageMs } };
    return this.#run(rest.keys.join(', '), (locks) => locks.acquire(request));
  }

  renew(requests: readonly RenewRequest[]): Promise<readonly RenewReply[]> {
    const renewOne = (request: RenewRequest): Promise<RenewReply> =>
      this.#run(request.key, (locks) => locks.renew(this.#stored(request))).catch((cause: unknown) => ({
        outcome: 'unknown',
        cause,
      }));
    return Promise.all(requests.map(renewOne));
  }

  release(request: ReleaseRequest): Promise<ReleaseReply> {
    return this.#run(request.key, (locks) => locks.release(this.#stored(request)));
  }

  downgrade(hold: HoldRef): Promise<{ readonly outcome: 'downgraded' } | LostReply> {
    return this.#run(hold.key, (locks) => locks.downgrade(this.#stored(hold)));
  }

  adopt(request: AdoptRequest): Promise<AdoptReply> {
    this.open();
    return this.#run(request.key, (locks) => locks.adopt(this.#stored(request)));
  }

  async forceRelease(key: string): Promise<boolean> {
    const command = randomAttempt(this.clientId, systemRandomness);
    const { holds } = await this.#run(key, (locks) => locks.forceRelease(this.keyPrefix + key, command));
    return holds > 0;
  }

  setPermits(key: string, permits: number | null): Promise<void> {
    return this.#run(key, (locks) => locks.setPermits(this.keyPrefix + key, permits ?? undefined));
  }

  inspect(key: string): Promise<LockState> {
    return this.#run(key, (locks) => stateOf(key, locks.look(this.keyPrefix + key)));
  }

  lastRun(key: string, job?: string): Promise<LastRun | null> {
    return this.#run(key, (locks) => lastRunOf(runsOf(locks.look(this.keyPrefix + key)), job));
  }

  list(options: ListOptions): AsyncIterable<LockState> {
    checkListOptions(options);
    return listLocks(this.#keys(options.prefix), options.limit, (key) => this.inspect(key));
  }

  async *#keys(prefix: string): AsyncGenerator<string> {
    const start = this.keyPrefix + prefix;
    const stored = await this.#run(LISTING, ({ keys }) => keys.filter((key) => key.startsWith(start)));
    for (const key of stored) yield key.slice(this.keyPrefix.length);
  }

  async close(): Promise<void> {
    this.#disconnect?.();
    this.#disconnect = null;
    this.#isClosed = true;
  }

  async #run<T>(subject: Subject, command: (locks: MemoryLocks) => T): Promise<T> {
    if (this.#isClosed) throw closedError(subject);
    return this.server.run(subject, (locks) => {
      // As in Redis, each command says how long its lock is remembered.
      locks.settings.keepMs = this.#keepMs;
      return command(locks);
    });
  }

  #stored<T extends { readonly key: string }>(request: T): T {
    return { ...request, key: this.keyPrefix + request.key };
  }
}

/** The error of a closed store, which has no connection any more. */
export const closedError = (subject: Subject): LockStoreError => {
  const what = typeof subject === 'string' ? `The lock "${subject}" could not be requested` : `Cannot ${subject.task}`;
  return new LockStoreError(`${what}: the connection was closed.`, { key: keyOfSubject(subject) });
};
