import { type WaitLimits } from '../core/acquire/free-watch.js';
import { eventOf, failedEvent, type LockRequest } from '../core/acquire/request.js';
import { busyError, queueFullError, waitTimeoutError } from '../core/busy-errors.js';
import { unansweredError } from '../core/error-texts.js';
import { FIRST_ANSWER_MS } from '../core/timing.js';
import { type Clock } from '../core/clock.js';
import { type ResolvedLockOptions } from '../core/lock.options.js';
import { type LockError, type LockLostReason, type LockMode } from '../core/lock.errors.js';
import { systemRuntime } from '../core/runtime.js';
import { type Acquired, Locker } from '../core/acquire/locker.js';
import { awayError, type FakeKey, type FakeOutcome, type FakeStore, holderFor, matches } from './fake-store.js';

/** One request for a lock. */
export interface FakeLockCall {
  /** In the order in which the call named them, without repetitions. */
  readonly keys: readonly string[];
  readonly mode: LockMode;
  /** Class and method of a decorated call; else empty. */
  readonly where: string;
  readonly options: ResolvedLockOptions;
}

/** The parts of a fake. */
export interface FakeLockerParts {
  readonly clock: Clock;
  readonly store: FakeStore;
  /** How long a shutdown waits for holders, in milliseconds; undefined: as long as the module says. */
  readonly drainMs: number | undefined;
}

const silent = { debug: (): void => {}, warn: (): void => {}, error: (): void => {} };

/** Grants at once unless a rule says otherwise; its locks are real ones of the core. */
export class FakeLocker extends Locker {
  readonly calls: FakeLockCall[] = [];
  readonly #fake: FakeLockerParts;
  #closed: Promise<void> | null = null;

  constructor(parts: FakeLockerParts) {
    super(systemRuntime(parts.clock), parts.store, silent, 'test:0');
    this.#fake = parts;
  }

  rule(which: FakeKey, outcome: FakeOutcome): void {
    this.#fake.store.rule(which, outcome);
    this.onListening();
  }

  /** Forgets the calls and the rules, and opens again; locks that are held stay held. */
  forget(): void {
    this.calls.length = 0;
    this.open();
    this.rule(undefined, 'grant');
  }

  /** Opens for an app that starts: the fake may have been closed with the app of an earlier test. */
  open(): this {
    this.isClosing = false;
    this.#closed = null;
    this.#fake.store.reopen();
    return this;
  }

  /** Closes once for all modules of an app that share it. */
  override close(drainMs: number): Promise<void> {
    this.#closed ??= super.close(this.#fake.drainMs ?? drainMs);
    return this.#closed;
  }

  /** Returns how many locks were lost. */
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
    this.#fake.store.groups(keys);
    this.calls.push({ keys, mode: options.mode, where: label.where, options });
    // A call after the close, or with an aborted signal, sends no request, whatever the rules say.
    const isRequested = !this.isClosing && !options.signal?.aborted;
    const failure = isRequested ? this.#failureOf(request) : undefined;
    if (failure) throw failure;
    // A fake excludes nobody: no call waits for others of its process either.
    return super.acquire({ ...request, options: { ...options, perInstance: 0 } }, toResult);
  }

  override async waitUntilFree(keys: readonly string[], limits: WaitLimits): Promise<void> {
    const { waitMs, signal } = limits;
    const outcome = this.#fake.store.outcomeOf(keys);
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
    const outcome = this.#fake.store.outcomeOf(request.keys);
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

  /** Emits the event of a failed call; returns the error. */
  #failed(error: LockError, request: LockRequest, waitedMs: number): LockError {
    const now = this.clock.now();
    const hasWaited = error.code === 'LOCK_WAIT_TIMEOUT';
    const failed = { ...request, startedAt: now - waitedMs };
    this.events.emit('acquireFailed', () => failedEvent(failed, now, error, hasWaited));
    return error;
  }
}
