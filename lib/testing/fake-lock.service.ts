import { ModulesContainer } from '@nestjs/core';
import { type Clock, systemClock } from '../core/clock.js';
import { type LockLostReason } from '../core/lock.errors.js';
import { LockInterceptor } from '../interceptor/lock.interceptor.js';
import { type LockedCall } from '../interceptor/locked-call.js';
import { type RedisLockModuleOptions, resolveModuleOptions } from '../redis-lock.options.js';
import { RedisLockService } from '../redis-lock.service.js';
import { type FakeLockCall, FakeLocker } from './fake-locker.js';
import { type FakeKey, type FakeOutcome, FakeStore } from './fake-store.js';

/** The options of `FakeLockService`: those options of the module that matter to a fake. */
export interface FakeLockOptions extends Pick<
  RedisLockModuleOptions,
  'name' | 'leaseMs' | 'waitMs' | 'maxHoldMs' | 'awaitRelease' | 'onUnavailable'
> {
  /** With a list of masters, the options are checked as for a quorum; nothing connects. */
  readonly connection?: RedisLockModuleOptions['connection'];
  /**
   * How long a shutdown waits for holders.
   * @default 0 with `FakeLockModule`, so that a lock that a test leaves held does not keep its app open; with
   *   `useFakeLocks`, the option of the app
   */
  readonly drainMs?: number;
  /** @default the clock of the process */
  readonly clock?: Clock;
}

type FakeParts = RedisLockService['parts'] & {
  readonly locker: FakeLocker;
  readonly store: FakeStore;
};

/** Any number will do: every call is a fire of its own. */
const A_SLOT_MS = 60_000;

/** A unit test of a scheduled job has neither a scheduler nor another instance that could run the same fire. */
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
 * A lock service for unit tests: grants every lock at once, excludes nobody, records all requests, and can be set to
 * refuse, time out, fail or lose locks. Everything else is real: handles, signals, `currentLock()`, nested calls, the checks
 * of options, and how decorators handle errors. A job with `oncePer` runs at every call.
 */
export class FakeLockService extends RedisLockService {
  /** The interceptor of the decorators; provide it as `LockInterceptor`, or use `withFakeLocks` or `FakeLockModule`. */
  readonly interceptor: LockInterceptor;
  readonly #locker: FakeLocker;
  readonly #store: FakeStore;

  constructor({ clock = systemClock, ...options }: FakeLockOptions = {}) {
    const store = new FakeStore(clock);
    const defaults = resolveModuleOptions(options);
    const locker = new FakeLocker({ clock, store, drainMs: options.drainMs });
    super(locker, store, defaults);
    this.#locker = locker;
    this.#store = store;
    this.interceptor = new FakeInterceptor(this, locker, defaults, new ModulesContainer());
  }

  /** Internal: replaces the parts of a module. */
  override get parts(): FakeParts {
    return { ...super.parts, locker: this.#locker, store: this.#store };
  }

  /** All requests so far, including refused ones; a nested call on a key that is held makes no request. */
  get calls(): readonly FakeLockCall[] {
    return this.#locker.calls;
  }

  /** The keys of all requests so far, in order. */
  get keys(): readonly string[] {
    return this.calls.flatMap(({ keys }) => keys);
  }

  /**
   * Makes the lock busy from now on: a call that must not wait rejects with a `LockBusyError`, and a call that waits with a
   * `LockWaitTimeoutError`, both at once. With `waitMs: Infinity` a call waits until it is granted or aborted.
   */
  refuse(which?: FakeKey): this {
    return this.#rule(which, 'refuse');
  }

  /** Same as `refuse`, but with so many waiters that a call with `maxWaiters` rejects with a `LockBusyError`. */
  fillQueue(which?: FakeKey): this {
    return this.#rule(which, 'full');
  }

  /** Same as `refuse`, for tests of calls that wait. */
  timeOut(which?: FakeKey): this {
    return this.refuse(which);
  }

  /** Behaves from now on as if Redis were down: calls reject with a `LockStoreError` at once, and no lock is renewed. */
  fail(which?: FakeKey): this {
    return this.#rule(which, 'fail');
  }

  /** Grants the lock again from now on. */
  grant(which?: FakeKey): this {
    return this.#rule(which, 'grant');
  }

  /**
   * Loses the locks that are held now: their signals fire, and their calls reject with a `LockLostError`.
   * @returns how many locks were lost
   */
  lose(which?: FakeKey, reason: LockLostReason = 'expired'): number {
    return this.#locker.lose(which, reason);
  }

  /** Forgets the calls, and grants everything again, even after an app was closed; call it between two tests. */
  reset(): this {
    this.#locker.forget();
    return this;
  }

  #rule(which: FakeKey, outcome: FakeOutcome): this {
    this.#locker.rule(which, outcome);
    return this;
  }
}
