import { ModulesContainer } from '@nestjs/core';
import { type WaitLimits } from '../core/acquire/free-watch.js';
import { type Acquired, Locker } from '../core/acquire/locker.js';
import { eventOf, failedEvent, type LockRequest } from '../core/acquire/request.js';
import { busyError, queueFullError, waitTimeoutError } from '../core/busy-errors.js';
import { type Clock, systemClock } from '../core/clock.js';
import { unansweredError } from '../core/error-texts.js';
import { type LockError, type LockLostReason, type LockMode, LockStoreError } from '../core/lock.errors.js';
import { type ResolvedLockOptions } from '../core/lock.options.js';
import { systemRuntime } from '../core/runtime.js';
import {
  type AcquireReply,
  type AcquireRequest,
  type ReleaseReply,
  type ReleaseRequest,
} from '../core/store/lock-store.js';
import { keyOfSubject, type Subject } from '../core/store/subject.js';
import { FIRST_ANSWER_MS } from '../core/timing.js';
import { LockInterceptor } from '../interceptor/lock.interceptor.js';
import { type LockedCall } from '../interceptor/locked-call.js';
import { closedError, MemoryLockServer, MemoryLockStore, subjectOf } from '../memory/memory-lock-store.js';
import { type MemoryLocks } from '../memory/memory-locks.js';
import { type RedisLockModuleOptions, resolveModuleOptions } from '../redis-lock.options.js';
import { partsOf } from '../redis-lock.parts.js';
import { RedisLockService } from '../redis-lock.service.js';

/** The outcome of a request; `full`: the lock is busy, and the queue exceeds every `maxWaiters`. */
type FakeOutcome = 'grant' | 'refuse' | 'full' | 'fail';

/** The locks of a rule: a key, a pattern of keys, or (left out) all. */
export type FakeKey = string | RegExp | undefined;

const matches = (which: FakeKey, key: string): boolean =>
  which === undefined || (typeof which === 'string' ? which === key : key.search(which) >= 0);

/** The holder of a lock that a test refuses; a semaphore reports no holder. */
const holderFor = (permits: number): string | undefined => (permits > 0 ? undefined : 'the test');

/**
 * A store in memory that grants every request at once unless a test sets a rule: no hold excludes another. Everything else
 * (owners, tokens, leases, states) is as in `MemoryLockStore`.
 */
class FakeStore extends MemoryLockStore {
  /** The latest rule that applies to a key decides. */
  readonly #rules: { readonly which: FakeKey; readonly outcome: FakeOutcome }[] = [];

  constructor(clock: Clock) {
    super(new MemoryLockServer({ clock }), { keyPrefix: '' });
    this.server.locks.excludes = false;
  }

  rule(which: FakeKey, outcome: FakeOutcome): void {
    // A rule for all keys replaces all earlier ones.
    if (which === undefined) this.#rules.length = 0;
    this.#rules.unshift({ which, outcome });
  }

  /** Of several keys, one that is not granted decides. */
  outcomeOf(keys: readonly string[]): FakeOutcome {
    const outcomes = keys.map((key) => this.#rules.find(({ which }) => matches(which, key))?.outcome ?? 'grant');
    return outcomes.find((outcome) => outcome !== 'grant') ?? 'grant';
  }

  override async acquire(request: AcquireRequest): Promise<AcquireReply> {
    const { keys, claim, permits } = request;
    const outcome = this.outcomeOf(keys);
    if (outcome === 'fail') throw awayError(keys.join(', '));
    if (outcome !== 'grant') {
      const serverTimeMs = Math.floor(this.server.clock.wallNow());
      return { outcome: 'busy', retryMs: 0, ahead: 0, holder: holderFor(permits), serverTimeMs };
    }
    // Every call of a job is a separate fire.
    if (claim) this.server.locks.all.get(keys[0]!)?.jobs.delete(claim.job);
    return super.acquire(request);
  }

  /** Works even under a `fail` rule: retries would cost a second of test time. */
  override async release(request: ReleaseRequest): Promise<ReleaseReply> {
    return this.server.locks.release(request);
  }

  /** Keeps listening: a fake may outlive its app. */
  override async close(): Promise<void> {
    this.isClosed = true;
  }

  reopen(): void {
    this.isClosed = false;
  }

  /** Replies at once, in the turn of the caller, unless a rule fails the command. */
  protected override async run<T>(about: Subject | readonly string[], command: (locks: MemoryLocks) => T): Promise<T> {
    const subject = subjectOf(about);
    if (this.isClosed) throw closedError(subject);
    // A command without a lock fails only if all locks fail.
    const keys = typeof about === 'string' ? [about] : 'task' in about ? [''] : about;
    if (this.outcomeOf(keys) === 'fail') throw awayError(subject);
    const { locks } = this.server;
    locks.forgetUnused();
    return command(locks);
  }
}

/** The error of a command that a rule fails. */
const awayError = (subject: Subject): LockStoreError => {
  const what = typeof subject === 'string' ? `has the lock "${subject}" fail` : `does not let it ${subject.task},`;
  return new LockStoreError(`The test ${what} as if Redis were away.`, { key: keyOfSubject(subject) });
};

/** One request for a lock. */
export interface FakeLockCall {
  /** In the order in which the call named them, without repetitions. */
  readonly keys: readonly string[];
  readonly mode: LockMode;
  /** Class and method of a decorated call; else empty. */
  readonly where: string;
  readonly options: ResolvedLockOptions;
}

const silent = { debug: (): void => {}, warn: (): void => {}, error: (): void => {} };

/** Grants at once unless a rule applies; its locks are real locks of the core. */
class FakeLocker extends Locker {
  readonly calls: FakeLockCall[] = [];
  #closed: Promise<void> | null = null;

  /** `drainMs`: how long a shutdown waits for holders; undefined: the option of the module. */
  constructor(
    clock: Clock,
    readonly fakeStore: FakeStore,
    private readonly drainMs: number | undefined,
  ) {
    super(systemRuntime(clock), fakeStore, silent, 'test:0');
  }

  rule(which: FakeKey, outcome: FakeOutcome): void {
    this.fakeStore.rule(which, outcome);
    this.onListening();
  }

  /** Forgets the calls and the rules, and opens again; held locks stay held. */
  forget(): void {
    this.calls.length = 0;
    this.open();
    this.rule(undefined, 'grant');
  }

  /** Opens for a starting app: the fake may have been closed with the app of an earlier test. */
  open(): this {
    this.isClosing = false;
    this.#closed = null;
    this.fakeStore.reopen();
    return this;
  }

  /** Closes once for all modules of an app that share it. */
  override close(drainMs: number): Promise<void> {
    this.#closed ??= super.close(this.drainMs ?? drainMs);
    return this.#closed;
  }

  lose(which: FakeKey, reason: LockLostReason): number {
    const losing = [...this.holds].filter(({ keys }) => keys.some((key) => matches(which, key)));
    for (const lock of losing) lock.lose(reason);
    return losing.length;
  }

  override acquire(request: LockRequest): Promise<Acquired>;
  override acquire<T>(request: LockRequest, toResult: (hold: Acquired) => T): Promise<T>;
  override async acquire(
    request: LockRequest,
    toResult: (hold: Acquired) => unknown = (hold) => hold,
  ): Promise<unknown> {
    const { keys, options, label } = request;
    this.fakeStore.groups(keys);
    this.calls.push({ keys, mode: options.mode, where: label.where, options });
    // A call after the close, or with an aborted signal, sends no request, whatever the rules.
    const isRequested = !this.isClosing && !options.signal?.aborted;
    const failure = isRequested ? this.#failureOf(request) : undefined;
    if (failure) throw failure;
    // A fake enforces nothing: no call waits for others of its process.
    return super.acquire({ ...request, options: { ...options, perInstance: 0 } }, toResult);
  }

  override async waitUntilFree(keys: readonly string[], limits: WaitLimits): Promise<void> {
    const { waitMs, signal } = limits;
    const outcome = this.fakeStore.outcomeOf(keys);
    if (outcome === 'grant' || waitMs === Infinity || this.isClosing || signal?.aborted) {
      return super.waitUntilFree(keys, limits);
    }
    const name = { key: keys.join(', '), mode: 'write' as const };
    if (outcome === 'fail') throw unansweredError(name, Math.max(waitMs, FIRST_ANSWER_MS), awayError(name.key));
    const holder = holderFor(0);
    throw waitMs === 0 ? busyError(name, { holder }) : waitTimeoutError(name, waitMs, { holder, ahead: 0 });
  }

  /** The error of a call, without the delay of a real one; undefined: it is granted, or waits without a limit. */
  #failureOf(request: LockRequest): LockError | undefined {
    const { mode, permits, waitMs, maxWaiters } = request.options;
    const outcome = this.fakeStore.outcomeOf(request.keys);
    const isFull = outcome === 'full' && maxWaiters > 0;
    if (outcome === 'grant' || (waitMs === Infinity && !isFull)) return undefined;
    const name = { key: request.name, mode };
    const holder = holderFor(permits);
    const limited = { ...name, permits };
    if (outcome === 'fail') {
      const waitedMs = Math.max(waitMs, FIRST_ANSWER_MS);
      return this.#failed(unansweredError(name, waitedMs, awayError(name.key)), request, waitedMs);
    }
    if (waitMs === 0) return this.#failed(busyError(limited, { holder }), request, 0);
    if (isFull) return this.#failed(queueFullError(name, maxWaiters), request, 0);
    const event = eventOf(request);
    this.events.emit('waiting', () => ({ ...event, ahead: 0, holder }));
    this.events.emit('timedOut', () => ({ ...event, waitedMs: waitMs, holder }));
    return this.#failed(waitTimeoutError(limited, waitMs, { holder, ahead: 0 }), request, waitMs);
  }

  #failed(error: LockError, request: LockRequest, waitedMs: number): LockError {
    const now = this.clock.now();
    const hasWaited = error.code === 'LOCK_WAIT_TIMEOUT';
    const failed = { ...request, startedAt: now - waitedMs };
    this.events.emit('acquireFailed', () => failedEvent(failed, now, error, hasWaited));
    return error;
  }
}

/** The options of `FakeLockService`: the options of the module that apply to a fake. */
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

/** Any number works: every call is a separate fire. */
const A_SLOT_MS = 60_000;

/** A unit test of a scheduled job has neither a scheduler nor another instance that could run its fire. */
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
 * A lock service for unit tests: grants every lock at once, enforces no exclusion, records all requests, and can be set to
 * refuse, time out, fail or lose locks. Everything else is real: handles, signals, `currentLock()`, nested calls, the checks
 * of options, and how decorators handle errors. A job with `oncePer` runs at every call.
 */
export class FakeLockService extends RedisLockService {
  /** The interceptor of the decorators; provide it as `LockInterceptor`, or use `withFakeLocks` or `FakeLockModule`. */
  readonly interceptor: LockInterceptor;
  readonly #locker: FakeLocker;

  constructor({ clock = systemClock, ...options }: FakeLockOptions = {}) {
    const store = new FakeStore(clock);
    const defaults = resolveModuleOptions(options);
    const locker = new FakeLocker(clock, store, options.drainMs);
    super(locker, store, defaults);
    this.#locker = locker;
    this.interceptor = new FakeInterceptor(this, locker, defaults, new ModulesContainer());
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

  /** Same as `refuse`, but with a full queue: a call with `maxWaiters` rejects with a `LockBusyError`. */
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
   * Loses the held locks: their signals are aborted, and their calls reject with a `LockLostError`.
   * @returns the number of lost locks
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

/** The locker of a fake, for a starting app: the fake may have been closed with an earlier app. */
export const openLocker = (locks: FakeLockService): Locker => (partsOf(locks)!.locker as FakeLocker).open();
