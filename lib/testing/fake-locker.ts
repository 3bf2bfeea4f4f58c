import { failedEvent } from '../core/acquire/request.js';
import { busyError, unansweredError, waitTimeoutError } from '../core/error-texts.js';
import { FIRST_ANSWER_MS } from '../core/timing.js';
import { type Clock } from '../core/clock.js';
import { type StoreHold } from '../core/hold/store-hold.js';
import { type CompositeHold } from '../core/hold/composite-hold.js';
import { type LockLabel, NO_LABEL } from '../core/lock.events.js';
import { type ResolvedLockOptions } from '../core/lock.options.js';
import { type LockError, type LockLostReason, type LockMode } from '../core/lock.errors.js';
import { Locker } from '../core/acquire/locker.js';
import { type FakeKey, type FakeOutcome, FakeRules, matches } from './fake-rules.js';
import { awayError, type GrantingStore, holderFor } from './granting-store.js';

/** One acquisition that was asked for. */
export interface FakeLockCall {
  /** In the order in which they were named, without repetitions. */
  readonly keys: readonly string[];
  readonly mode: LockMode;
  /** Class and method, where a decorator acquired it; else empty. */
  readonly where: string;
  readonly options: ResolvedLockOptions;
}

/** What a fake is made of. */
export interface FakeLockerParts {
  readonly clock: Clock;
  readonly store: GrantingStore;
  readonly rules: FakeRules;
  /** How long a shutdown waits for holders; undefined: as long as the module says. */
  readonly drainMs: number | undefined;
}

const silent = { debug: (): void => {}, warn: (): void => {}, error: (): void => {} };

/** Grants at once, unless it was told otherwise; what a grant gives is a real lock of the core. */
export class FakeLocker extends Locker {
  readonly calls: FakeLockCall[] = [];
  readonly #fake: FakeLockerParts;
  #closed: Promise<void> | null = null;

  constructor(parts: FakeLockerParts) {
    super(parts.clock, parts.store, silent, 'test:0');
    this.#fake = parts;
  }

  rule(which: FakeKey, outcome: FakeOutcome): void {
    this.#fake.rules.add(which, outcome);
    this.onListening();
  }

  /** Forgets the calls and the rules, and opens again; what is held stays held. */
  forget(): void {
    this.calls.length = 0;
    this.#fake.rules.clear();
    this.open();
    this.onListening();
  }

  /** For an app that starts: a fake may have been closed with the app of an earlier test. */
  open(): this {
    this.isClosing = false;
    this.#closed = null;
    this.#fake.store.reopen();
    return this;
  }

  /** Once for all modules of an app that share it. */
  override close(drainMs: number): Promise<void> {
    this.#closed ??= super.close(this.#fake.drainMs ?? drainMs);
    return this.#closed;
  }

  /** Gives how many locks were lost. */
  lose(which: FakeKey, reason: LockLostReason): number {
    const losing = [...this.holds].filter(({ keys }) => keys.some((key) => matches(which, key)));
    for (const lock of losing) lock.lose(reason);
    return losing.length;
  }

  override async acquire(
    ...[keys, options, label = NO_LABEL, ...rest]: Parameters<Locker['acquire']>
  ): Promise<StoreHold | CompositeHold> {
    const named = this.checkKeys(keys);
    this.#fake.store.groups(named);
    this.calls.push({ keys: named, mode: options.mode, where: label.where, options });
    // Whoever comes after the end, or gave up before, asks for nothing, whatever the rules say.
    const isAsked = !this.isClosing && !options.signal?.aborted;
    const failure = isAsked ? this.#failureOf(named, options, label) : undefined;
    if (failure) throw failure;
    return super.acquire(named, options, label, ...rest);
  }

  /** What the call rejects with, without the time that it takes elsewhere; a wait that has no end goes on. */
  #failureOf(keys: readonly string[], options: ResolvedLockOptions, label: LockLabel): LockError | undefined {
    const { mode, permits, waitMs } = options;
    const outcome = this.#fake.rules.outcomeOf(keys);
    if (outcome === 'grant' || waitMs === Infinity) return undefined;
    const name = { key: keys.join(', '), mode };
    const holder = holderFor(permits);
    const limited = { ...name, permits };
    if (outcome === 'fail') {
      const waitedMs = Math.max(waitMs, FIRST_ANSWER_MS);
      return this.#failed(unansweredError(name, waitedMs, awayError(name.key)), { keys, options, label, waitedMs });
    }
    if (waitMs === 0) return this.#failed(busyError(limited, { holder }), { keys, options, label, waitedMs: 0 });
    this.events.emit('waiting', () => ({ ...label, ...name, ahead: 0, holder }));
    this.events.emit('timedOut', () => ({ ...label, ...name, waitedMs: waitMs, holder }));
    const error = waitTimeoutError(limited, waitMs, { holder, ahead: 0 });
    return this.#failed(error, { keys, options, label, waitedMs: waitMs });
  }

  /** Tells those who listen. */
  #failed(error: LockError, { waitedMs, ...call }: FailedCall): LockError {
    const now = this.clock.now();
    const request = { ...call, name: call.keys.join(', '), startedAt: now - waitedMs };
    const hasWaited = error.code === 'LOCK_WAIT_TIMEOUT';
    this.events.emit('acquireFailed', () => failedEvent(request, now, error, hasWaited));
    return error;
  }
}

/** An acquisition that is told to fail. */
interface FailedCall {
  readonly keys: readonly string[];
  readonly options: ResolvedLockOptions;
  readonly label: LockLabel;
  readonly waitedMs: number;
}
