import { ModulesContainer } from '@nestjs/core';
import { type Clock, systemClock } from '../core/clock.js';
import { type LockLostReason } from '../core/lock.errors.js';
import { LockInterceptor } from '../interceptor/lock.interceptor.js';
import { type LockedCall } from '../interceptor/locked-call.js';
import { type RedisLockModuleOptions, resolveModuleOptions } from '../redis-lock.options.js';
import { RedisLockService } from '../redis-lock.service.js';
import { type FakeLockCall, FakeLocker } from './fake-locker.js';
import { type FakeKey, type FakeOutcome, FakeRules } from './fake-rules.js';
import { GrantingStore } from './granting-store.js';

/** The options of `FakeLockService`: those of the module that it stands for, as far as they matter to it. */
export interface FakeLockOptions extends Pick<
  RedisLockModuleOptions,
  'name' | 'leaseMs' | 'waitMs' | 'maxHoldMs' | 'onUnavailable'
> {
  /** A list of masters has the options be checked as for a quorum; nothing connects. */
  readonly connection?: RedisLockModuleOptions['connection'];
  /**
   * How long a shutdown waits for holders.
   * @default 0 with `FakeLockModule`, so that what a test leaves held does not keep its app open; that of the app with
   *   `useFakeLocks`
   */
  readonly drainMs?: number;
  /** @default the clock of the process */
  readonly clock?: Clock;
}

/** Any number would do: every call is a fire of its own. */
const A_SLOT_MS = 60_000;

/** A unit test of a scheduled job has neither the scheduler, nor another instance that might run the same fire. */
class FakeInterceptor extends LockInterceptor {
  override run(call: LockedCall, ...rest: [self: unknown, args: readonly unknown[], proceed: () => unknown]): unknown {
    return super.run(withoutSchedule(call), ...rest);
  }
}

function withoutSchedule(call: LockedCall): LockedCall {
  const { oncePer } = call.options;
  if (oncePer === undefined) return call;
  const job = { oncePer: oncePer === 'fire' ? A_SLOT_MS : oncePer, spreadMs: 0 };
  return { ...call, options: { ...call.options, ...job } };
}

/**
 * A lock service for unit tests: grants every lock at once, excludes nobody, records who asked for what, and can be told to
 * refuse, to time out, to fail or to lose. All else is real: handles, signals, `currentLock()`, nested calls, options that
 * are checked, and what the decorators make of an error. A job with `oncePer` runs at every call.
 */
export class FakeLockService extends RedisLockService {
  /** What the decorators call; give it to Nest as `LockInterceptor`, or use `withFakeLocks` or `FakeLockModule`. */
  readonly interceptor: LockInterceptor;
  readonly #locker: FakeLocker;
  readonly #store: GrantingStore;

  constructor({ clock = systemClock, ...options }: FakeLockOptions = {}) {
    const rules = new FakeRules();
    const store = new GrantingStore(clock, rules);
    const defaults = resolveModuleOptions(options);
    const locker = new FakeLocker({ clock, store, rules, drainMs: options.drainMs });
    super(locker, store, defaults);
    this.#locker = locker;
    this.#store = store;
    this.interceptor = new FakeInterceptor(this, locker, defaults, new ModulesContainer());
  }

  /** Internal: what a module gets in the place of its own. */
  get parts(): { readonly locker: FakeLocker; readonly store: GrantingStore } {
    return { locker: this.#locker, store: this.#store };
  }

  /** All acquisitions so far, also those that were refused; a nested call on a key that is held asks for nothing. */
  get calls(): readonly FakeLockCall[] {
    return this.#locker.calls;
  }

  /** The keys of all acquisitions so far, in their order. */
  get keys(): readonly string[] {
    return this.calls.flatMap(({ keys }) => keys);
  }

  /**
   * From now on the lock is busy for everybody who asks: at once, a `LockBusyError` for who is not to wait, and a
   * `LockWaitTimeoutError` for who waits. With `waitMs: Infinity` a call waits until it is granted or aborted.
   */
  refuse(which?: FakeKey): this {
    return this.#rule(which, 'refuse');
  }

  /** The same as `refuse`, for tests of calls that wait. */
  timeOut(which?: FakeKey): this {
    return this.refuse(which);
  }

  /** From now on it is as if Redis were away: a `LockStoreError` at once, and nothing that is held is renewed. */
  fail(which?: FakeKey): this {
    return this.#rule(which, 'fail');
  }

  /** From now on the lock is granted again. */
  grant(which?: FakeKey): this {
    return this.#rule(which, 'grant');
  }

  /**
   * Has the locks that are held now be lost: their signals fire, and their calls reject with a `LockLostError`.
   * @returns how many there were
   */
  lose(which?: FakeKey, reason: LockLostReason = 'expired'): number {
    return this.#locker.lose(which, reason);
  }

  /** Forgets the calls, and grants everything again, also after the end of an app; between two tests. */
  reset(): this {
    this.#locker.forget();
    return this;
  }

  #rule(which: FakeKey, outcome: FakeOutcome): this {
    this.#locker.rule(which, outcome);
    return this;
  }
}
