import { randomBytes } from 'node:crypto';
import { Acquisition, type AcquisitionHost } from './acquisition.js';
import { type Clock } from './clock.js';
import { HeldLock, type LockKeeper } from './held-lock.js';
import { LockNotHeldError, LockShutdownError, LockStoreError } from './lock.errors.js';
import { type ResolvedLockOptions } from './lock-options.js';
import { type LockStore, type WakeUp, type WakeUpListener } from './lock-store.js';
import { Releaser } from './releaser.js';
import { type Reporter, messageOf } from './reporter.js';
import { TimerQueue } from './timer-queue.js';
import { commandTimeoutMs, Watchdog } from './watchdog.js';

/** How long a release may keep its caller waiting; it goes on in the background until the lease is over. */
const RELEASE_PATIENCE_MS = 1_000;

/** Acquires locks of one store, keeps their leases, gives them back; all that is alive in between is here. */
export class Locker implements LockKeeper, WakeUpListener {
  readonly #acquisitions = new Map<string, Acquisition>();
  readonly #timers: TimerQueue;
  readonly #watchdog: Watchdog;
  readonly #releaser: Releaser;
  readonly #host: AcquisitionHost;
  /** Sets attempts of two processes apart even in the few characters by which released attempts are remembered. */
  readonly #salt = randomBytes(2).toString('base64url').slice(0, 2);
  #counter = 0;
  #closing: LockShutdownError | null = null;
  #onRelease: (() => void) | null = null;

  constructor(
    readonly clock: Clock,
    private readonly store: LockStore,
    private readonly reporter: Reporter,
    holder: string,
  ) {
    this.#timers = new TimerQueue(clock);
    this.#watchdog = new Watchdog(clock, this.#timers, store, reporter);
    this.#releaser = new Releaser(clock, this.#timers, store, reporter);
    this.#host = {
      clock,
      timers: this.#timers,
      store,
      holder,
      nextAttempt: () => this.#nextAttempt(),
      onAttempt: (acquisition, before, now) => {
        if (before !== null) this.#acquisitions.delete(before);
        if (now !== null) this.#acquisitions.set(now, acquisition);
      },
      abandon: (key, attempt, leaseMs) => void this.#giveBack(key, attempt, 0, clock.now() + leaseMs, leaseMs),
    };
    store.listen(this);
  }

  /** How much is alive: locks, waiting acquisitions, releases under way and timers. For tests of leaks. */
  get live(): { locks: number; waiting: number; releasing: number; timers: number } {
    return {
      locks: this.#watchdog.size,
      waiting: this.#acquisitions.size,
      releasing: this.#releaser.size,
      timers: this.#timers.size,
    };
  }

  /** Acquires one key; `context` names the method for whom, for people. */
  async acquire(key: string, options: ResolvedLockOptions, context = ''): Promise<HeldLock> {
    this.store.checkKey(key);
    if (this.#closing) throw this.#closing;
    options.signal?.throwIfAborted();
    const acquisition = new Acquisition(this.#host, key, options, context && ` ${context}`);
    const lock = new HeldLock(await acquisition.granted, this);
    if (this.#closing) {
      // The shutdown began in the very turn of the grant, and did not see this lock.
      void lock.release();
      throw this.#closing;
    }
    this.#watchdog.watch(lock);
    return lock;
  }

  onWakeUp(attempt: string, wakeUp: WakeUp): void {
    this.#acquisitions.get(attempt)?.onWakeUp(wakeUp);
  }

  onGap(): void {
    for (const acquisition of this.#acquisitions.values()) acquisition.onWakeUp({ kind: 'wake' });
  }

  async extend(lock: HeldLock, leaseMs: number): Promise<void> {
    const reply = await this.#watchdog.extend(lock, leaseMs);
    if (lock.lost) throw lock.lost;
    if (lock.isReleased) throw new LockNotHeldError(`The lock "${lock.key}" was released while it was extended.`, lock);
    if (reply.outcome === 'unknown') {
      const text = `The lock "${lock.key}" could not be extended: ${messageOf(reply.cause)}. It is held while \`held\` is true.`;
      throw new LockStoreError(text, { key: lock.key, mode: lock.mode, cause: reply.cause });
    }
  }

  async release(lock: HeldLock): Promise<void> {
    const { key, attempt, fencingToken, holdAtLeastMs, leaseMs } = lock.grant;
    this.#watchdog.unwatch(lock);
    const released = this.#giveBack(key, attempt, holdAtLeastMs, lock.deadline, leaseMs).then(({ reply, asked }) => {
      // When an earlier command went unanswered it may have been the one that released.
      if (!reply || asked > 1 || reply.outcome === 'released' || reply.outcome === 'again') return;
      if (lock.lost) return;
      lock.loseAtRelease(reply.lastToken > fencingToken ? 'taken' : 'expired');
      this.reporter.error(lock.lost!.message);
    });
    // Who lost the lock is told at once; whether the store still heard of the release is of no use to them.
    if (!lock.lost) await this.#within(RELEASE_PATIENCE_MS, released);
    this.#onRelease?.();
  }

  /**
   * Shuts down: no new acquires, waiting ends with a `LockShutdownError`, holders have `drainMs` to finish; then their
   * signals fire, and what is left is released.
   */
  async close(drainMs: number): Promise<void> {
    this.#closing ??= new LockShutdownError('The application is shutting down: locks are no longer acquired.');
    for (const acquisition of this.#acquisitions.values()) acquisition.giveUp(this.#closing);
    const drained = new Promise<void>((resolve) => {
      this.#onRelease = () => this.#watchdog.size === 0 && resolve();
      this.#onRelease();
    });
    await this.#within(drainMs, drained);
    for (const lock of this.#watchdog.locks) {
      this.reporter.warn(`The lock "${lock.key}" was still held ${drainMs} ms after the shutdown began: releasing it.`);
      lock.lose('released-by-operator', this.#closing);
      void lock.release();
    }
    await this.#within(RELEASE_PATIENCE_MS, this.#releaser.idle());
  }

  #giveBack(key: string, attempt: string, minHoldMs: number, until: number, leaseMs: number) {
    return this.#releaser.release({ key, attempt, minHoldMs }, until, commandTimeoutMs(leaseMs));
  }

  /** Waits for `done`, but no longer than `ms`. */
  #within(ms: number, done: Promise<void>): Promise<void> {
    return new Promise((resolve) => {
      const limit = this.#timers.schedule(this.clock.now() + ms, resolve);
      void done.then(() => {
        limit.cancel();
        resolve();
      });
    });
  }

  #nextAttempt(): string {
    this.#counter += 1;
    return `${this.store.clientId}.${this.#salt}${this.#counter.toString(36).padStart(6, '0').slice(-6)}`;
  }
}
