import { ModulesContainer } from '@nestjs/core';
import { type Clock, systemClock } from '../core/clock.js';
import { type LockLostReason } from '../core/lock.errors.js';
import { LockInterceptor } from '../interceptor/lock.interceptor.js';
import { type LockedCall } from '../interceptor/locked-call.js';
import { type RedisLockModuleOptions, resolveModuleOptions } from '../redis-lock.options.js';
import { RedisLockService } from '../redis-lock.service.js';
import { type FakeKey, type FakeLockCall, FakeLocker } from './fake-locker.js';
import { GrantingStore } from './granting-store.js';

/** The options of `FakeLockService`: those of the module that it stands for, as far as they matter to it. */
export interface FakeLockOptions extends Pick<
  RedisLockModuleOptions,
  'name' | 'leaseMs' | 'waitMs' | 'maxHoldMs' | 'onUnavailable'
> {
  /** @default the clock of the process */
  readonly clock?: Clock;
}

/** A unit test of a scheduled job has neither the scheduler, nor another instance that might run the same fire. */
class FakeInterceptor extends LockInterceptor {
  override run(call: LockedCall, ...rest: [self: unknown, args: readonly unknown[], proceed: () => unknown]): unknown {
    return super.run(withoutFire(call), ...rest);
  }
}

/** What remains of a job: who does not get its lock is skipped, and it does not run inside itself. */
function withoutFire(call: LockedCall): LockedCall {
  const { oncePer, spreadMs: _spreadMs, rerunOnLoss: _rerunOnLoss, ...options } = call.options;
  if (oncePer === undefined) return call;
  return { ...call, options: { ...options, ifBusy: options.ifBusy ?? 'skip', reentrant: false } };
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

  constructor({ clock = systemClock, ...options }: FakeLockOptions = {}) {
    const store = new GrantingStore(clock);
    const locker = new FakeLocker(clock, store);
    const defaults = resolveModuleOptions(options);
    super(locker, store, defaults);
    this.#locker = locker;
    this.interceptor = new FakeInterceptor(this, locker, defaults, new ModulesContainer());
  }

  /** All acquisitions so far, also those that were refused; a nested call on a key that is held asks for nothing. */
  get calls(): readonly FakeLockCall[] {
    return this.#locker.calls;
  }

  /** The keys of all acquisitions so far, in their order. */
  get keys(): readonly string[] {
    return this.calls.flatMap(({ keys }) => keys);
  }

  /** From now on the lock is busy for everybody who asks: a `LockBusyError` at once, whatever their `waitMs`. */
  refuse(which?: FakeKey): this {
    return this.#rule(which, 'refuse');
  }

  /** From now on a wait ends at once with a `LockWaitTimeoutError`; who is not to wait gets a `LockBusyError`. */
  timeOut(which?: FakeKey): this {
    return this.#rule(which, 'time-out');
  }

  /** From now on it is as if Redis were away: a `LockStoreError` at once. */
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

  /** Forgets the calls, and grants everything again; between two tests. */
  reset(): this {
    this.#locker.forget();
    return this;
  }

  #rule(which: FakeKey, outcome: Parameters<FakeLocker['rule']>[1]): this {
    this.#locker.rule(which, outcome);
    return this;
  }
}
