import { failedEvent } from '../core/acquire-failed.js';
import { busyError, waitTimeoutError } from '../core/acquisition-errors.js';
import { type Clock } from '../core/clock.js';
import { HeldLock } from '../core/held-lock.js';
import { type JoinedLock } from '../core/joined-lock.js';
import { type LockLabel, NO_LABEL } from '../core/lock-label.js';
import { type ResolvedLockOptions } from '../core/lock-options.js';
import {
  type LockError,
  type LockLostReason,
  type LockMode,
  LockStoreError,
  LockWaitTimeoutError,
} from '../core/lock.errors.js';
import { Locker } from '../core/locker.js';
import { type GrantingStore } from './granting-store.js';

/** One acquisition that was asked for. */
export interface FakeLockCall {
  /** In the order in which they were named, without repetitions. */
  readonly keys: readonly string[];
  readonly mode: LockMode;
  /** Class and method, where a decorator acquired it; else empty. */
  readonly where: string;
  readonly options: ResolvedLockOptions;
}

/** How an acquisition is to end. */
export type FakeOutcome = 'grant' | 'refuse' | 'time-out' | 'fail';

/** Which locks: one by its key, some by a pattern, or (left out) all. */
export type FakeKey = string | RegExp | undefined;

const matches = (which: FakeKey, key: string): boolean =>
  which === undefined || (typeof which === 'string' ? which === key : key.search(which) >= 0);

const silent = { debug: (): void => {}, warn: (): void => {}, error: (): void => {} };

/** Grants at once, unless it was told otherwise; what a grant gives is a real lock of the core. */
export class FakeLocker extends Locker {
  readonly calls: FakeLockCall[] = [];
  /** The latest that fits counts. */
  readonly #rules: { readonly which: FakeKey; readonly outcome: FakeOutcome }[] = [];
  readonly #granted = new Set<HeldLock>();

  constructor(clock: Clock, store: GrantingStore) {
    super(clock, store, silent, 'test:0');
  }

  rule(which: FakeKey, outcome: FakeOutcome): void {
    this.#rules.unshift({ which, outcome });
  }

  /** Forgets the calls and the rules; what is held stays held. */
  forget(): void {
    this.calls.length = 0;
    this.#rules.length = 0;
  }

  /** Gives how many locks were lost. */
  lose(which: FakeKey, reason: LockLostReason): number {
    this.#granted.forEach((lock) => lock.isOver && this.#granted.delete(lock));
    const losing = [...this.#granted].filter((lock) => lock.keys.some((key) => matches(which, key)));
    for (const lock of losing) lock.lose(reason);
    return losing.length;
  }

  override async acquire(
    ...[keys, options, label = NO_LABEL, ...rest]: Parameters<Locker['acquire']>
  ): Promise<HeldLock | JoinedLock> {
    const named = this.checkKeys(keys);
    this.calls.push({ keys: named, mode: options.mode, where: label.where, options });
    // Whoever gave up before asks for nothing, whatever the rules say.
    const error = options.signal?.aborted ? undefined : this.#errorFor(named, options);
    if (error) {
      this.#tell(error, named, options, label);
      throw error;
    }
    const lock = await super.acquire(named, options, label, ...rest);
    if (lock instanceof HeldLock) this.#granted.add(lock);
    return lock;
  }

  #errorFor(keys: readonly string[], { mode, waitMs }: ResolvedLockOptions): LockError | undefined {
    const name = { key: keys.join(', '), mode };
    const holder = 'the test';
    switch (this.#rules.find(({ which }) => keys.some((key) => matches(which, key)))?.outcome) {
      case 'refuse':
        return busyError(name, { holder });
      case 'time-out':
        return waitMs === 0 ? busyError(name, { holder }) : waitTimeoutError(name, waitMs, { holder, ahead: 0 });
      case 'fail':
        return new LockStoreError(`The test has the lock "${name.key}" fail as if Redis were away.`, name);
      default:
        return undefined;
    }
  }

  /** The events of an acquisition that failed, for code that listens to them. */
  #tell(error: LockError, keys: readonly string[], options: ResolvedLockOptions, label: LockLabel): void {
    const wanted = { keys, name: keys.join(', '), options, label, startedAt: this.clock.now() };
    if (error instanceof LockWaitTimeoutError) {
      const { waitedMs, holder } = error;
      this.events.emit('timedOut', () => ({ ...label, key: wanted.name, mode: options.mode, waitedMs, holder }));
    }
    this.events.emit('acquireFailed', () => failedEvent(wanted, this, error, false));
  }
}
