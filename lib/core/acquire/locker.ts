import { AsyncLocalStorage } from 'node:async_hooks';
import { Acquisition } from './acquisition.js';
import { Attempts } from './attempts.js';
import { failedEvent, type LockRequest } from './request.js';
import { attemptIds } from '../store/attempt-ids.js';
import { AwaitedCalls } from '../awaited-calls.js';
import { type Clock } from '../clock.js';
import { LAST_RELEASES_MS, RELEASE_PATIENCE_MS } from '../timing.js';
import { heldEvent, heldMsOf } from '../hold/held-event.js';
import { type Hold, type WorkOutcome } from '../hold/hold.js';
import { type Grant, StoreHold, type LockKeeper } from '../hold/store-hold.js';
import { downgradeHolds, releaseHolds } from '../hold/holds-in-store.js';
import { CompositeHold, throwIfLost } from '../hold/composite-hold.js';
import { HandleRegistry } from '../hold/handle.js';
import { LockEvents, type LockLabel, NO_LABEL } from '../lock.events.js';
import { type ResolvedLockOptions } from '../lock.options.js';
import { type FireClaim, type LockStore, type WakeUp, type WakeUpListener } from '../store/lock-store.js';
import { type LockLostError, LockNotHeldError } from '../lock.errors.js';
import { shutdownError, unconfirmedError } from '../error-texts.js';
import { LogLimit } from '../log-limit.js';
import { Releaser } from '../hold/releaser.js';
import { type Reporter } from '../reporter.js';
import { TimerQueue } from '../timer-queue.js';
import { Watchdog } from '../hold/watchdog.js';

/** Acquires locks of one store, keeps their leases, gives them back; all that is alive in between is here. */
export class Locker implements LockKeeper, WakeUpListener {
  readonly events: LockEvents;
  readonly timers: TimerQueue;
  readonly handles: HandleRegistry;
  readonly awaited: AwaitedCalls;
  readonly #attempts: Attempts;
  readonly #held = new Map<string, StoreHold>();
  readonly #watchdog: Watchdog;
  readonly #releaser: Releaser;
  readonly #losses: LogLimit;
  readonly #thrown: LogLimit;
  /** For what comes by a timer, a message or a look at a lock: it is no part of the call in whose context it comes. */
  readonly #inOwnContext = AsyncLocalStorage.snapshot();
  protected isClosing = false;
  #onRelease: (() => void) | null = null;

  constructor(
    readonly clock: Clock,
    private readonly store: LockStore,
    private readonly reporter: Reporter,
    /** Who asks, for people: `host:pid`. */
    private readonly instance: string,
  ) {
    this.timers = new TimerQueue(clock);
    this.#thrown = new LogLimit(clock, this.timers, 'listeners threw', (line) => reporter.error(line));
    this.events = new LockEvents({ error: (line) => this.#thrown.add(line) });
    this.handles = new HandleRegistry(reporter);
    this.awaited = new AwaitedCalls(clock);
    this.#watchdog = new Watchdog(clock, this.timers, store, reporter, this.events);
    this.#losses = new LogLimit(clock, this.timers, 'locks were lost', (line) => reporter.error(line));
    this.#releaser = new Releaser(clock, this.timers, store, reporter);
    const isHeld = (attempt: string): boolean => this.#held.has(attempt);
    this.#attempts = new Attempts({
      clock,
      store,
      releaser: this.#releaser,
      nextId: attemptIds(store.clientId),
      isHeld,
    });
    store.listen(this);
  }

  /** How much is alive: locks, waiting acquisitions, releases under way and timers. For tests of leaks. */
  get live(): { locks: number; waiting: number; releasing: number; timers: number } {
    return {
      locks: this.#watchdog.size,
      waiting: this.#attempts.size,
      releasing: this.#releaser.size,
      timers: this.timers.size,
    };
  }

  /** Checks keys before anything is sent; gives them without repetitions, in the order in which they were named. */
  checkKeys(keys: readonly string[]): readonly string[] {
    for (const key of keys) this.store.checkKey(key);
    return [...new Set(keys)];
  }

  /**
   * Acquires all keys or none, in an order that is the same for everybody, so that two calls cannot block each other.
   * `startedAt`: from when `waitMs` counts, for a call that has waited elsewhere before.
   */
  async acquire(
    keys: readonly string[],
    options: ResolvedLockOptions,
    label: LockLabel = NO_LABEL,
    claim?: FireClaim,
    startedAt = this.clock.now(),
  ): Promise<StoreHold | CompositeHold> {
    const named = this.checkKeys(keys);
    const groups = named.length === 1 ? [named] : this.store.groups(named);
    const holder = label.where ? `${this.instance} ${label.where}` : this.instance;
    const request = { keys: named, name: named.join(', '), options, label, holder, claim, startedAt };
    if (groups.length === 1) return this.#acquireGroup(groups[0]!, request);
    const parts: Hold[] = [];
    try {
      for (const group of groups) {
        parts.push(await this.#acquireGroup(group, { ...request, keys: group, name: group.join(', ') }));
      }
      throwIfLost(parts);
    } catch (error) {
      // Within the limit of the whole call, even if Redis cannot be reached by now.
      const patienceMs = Math.min(startedAt + options.waitMs - this.clock.now(), 0) + RELEASE_PATIENCE_MS;
      await this.timers.withTimeout(patienceMs, Promise.all(parts.map((part) => part.release())));
      throw error;
    }
    return new CompositeHold(named, parts);
  }

  onWakeUp(attempt: string, wakeUp: WakeUp): void {
    this.#inOwnContext(() => this.#wake(attempt, wakeUp));
  }

  #wake(attempt: string, wakeUp: WakeUp): void {
    const call = this.#attempts.callOf(attempt);
    if (call) return call.onWakeUp(wakeUp);
    if (wakeUp.kind !== 'revoked') return;
    const revoke = () => this.#held.get(attempt)?.lose('revoked');
    revoke();
    // It may be told in one piece with the grant, whose lock is there a microtask later.
    void Promise.resolve().then(revoke);
  }

  onListening(): void {
    this.#inOwnContext(() => {
      for (const call of this.#attempts.calls) call.onWakeUp({ kind: 'wake' });
    });
  }

  onGap(): void {
    this.onListening();
    this.#watchdog.renewAll();
  }

  async extend(lock: StoreHold, leaseMs: number): Promise<void> {
    const renewal = await this.awaited.keepAlive(this.#watchdog.extend(lock, leaseMs));
    if (lock.lost) throw lock.lost;
    if (lock.isEnded) throw new LockNotHeldError(`The lock "${lock.key}" was released while it was extended.`, lock);
    if (renewal.outcome === 'unknown') throw unconfirmedError(lock, 'extended', renewal.cause);
  }

  downgrade(lock: StoreHold): Promise<void> {
    return this.awaited.keepAlive(downgradeHolds(lock, this.store));
  }

  onLost(lock: StoreHold, error: LockLostError): void {
    this.#watchdog.unwatch(lock);
    this.#held.delete(lock.grant.attempt);
    this.#inOwnContext(() => {
      this.#losses.add(error.message);
      this.events.emit('lost', () => ({ ...heldEvent(lock), heldMs: heldMsOf(lock), reason: error.reason, error }));
    });
    this.#onRelease?.();
  }

  async release(lock: StoreHold, outcome: WorkOutcome | undefined): Promise<boolean> {
    this.#watchdog.unwatch(lock);
    this.#held.delete(lock.grant.attempt);
    const released = releaseHolds(lock, outcome, { releaser: this.#releaser, events: this.events });
    // Who lost the lock is told at once; whether the store still heard of the release is of no use to them.
    const isConfirmed =
      !lock.lost && (await this.awaited.keepAlive(this.timers.withTimeout(RELEASE_PATIENCE_MS, released)));
    this.#onRelease?.();
    return isConfirmed === true;
  }

  /**
   * Shuts down: no new acquires, waiting ends with a `LockShutdownError`, holders have `drainMs` to finish; then their
   * signals fire, and what is left is released.
   */
  async close(drainMs: number): Promise<void> {
    this.isClosing = true;
    const until = this.clock.now() + drainMs;
    for (const call of this.#attempts.calls) call.cancel(shutdownError());
    const drained = new Promise<void>((resolve) => {
      this.#onRelease = () => this.#watchdog.size === 0 && resolve();
      this.#onRelease();
    });
    await this.timers.withTimeout(drainMs, drained);
    const log = new LogLimit(this.clock, this.timers, 'locks were still held', (line) => this.reporter.warn(line));
    for (const lock of this.#watchdog.locks) {
      log.add(`The lock "${lock.key}" was still held ${drainMs} ms after the shutdown began: releasing it.`);
      lock.lose('shutdown', shutdownError());
      lock.endNow();
    }
    log.flush();
    this.#releaser.hurry();
    const leftMs = Math.max(until - this.clock.now(), LAST_RELEASES_MS);
    await this.timers.withTimeout(Math.min(leftMs, RELEASE_PATIENCE_MS), this.#releaser.idle());
    this.#releaser.stop();
    this.#watchdog.stop();
    for (const log of [this.#losses, this.#thrown]) log.flush();
  }

  /** Acquires the keys of one request, all of which are in this group of the store. */
  async #acquireGroup(group: readonly string[], request: LockRequest): Promise<StoreHold> {
    const { clock, timers, events } = this;
    const grouped = { ...request, keys: group };
    let acquisition: Acquisition | undefined;
    try {
      if (this.isClosing) throw shutdownError();
      request.options.signal?.throwIfAborted();
      acquisition = new Acquisition({ clock, timers, events, attempts: this.#attempts }, grouped);
      const grant = await acquisition.granted;
      const holds = request.keys.map((key) => grant.holds.find((hold) => hold.key === key)!);
      return this.#hold(grouped, { ...grant, holds }, acquisition.hasWaited);
    } catch (error) {
      const waited = acquisition?.hasWaited ?? false;
      events.emit('acquireFailed', () => failedEvent(request, clock.now(), error, waited));
      throw error;
    }
  }

  #hold(request: LockRequest, grant: Grant, waited: boolean): StoreHold {
    if (this.isClosing) {
      // The shutdown began in the very turn of the grant, and did not see this lock.
      this.#attempts.giveBack({ id: grant.attempt, request, wasGranted: false, mayArrive: grant.unanswered() });
      throw shutdownError();
    }
    const lock = new StoreHold(grant, this);
    this.#held.set(grant.attempt, lock);
    this.#watchdog.watch(lock);
    const { waitedMs, serverTimeMs } = grant;
    this.events.emit('acquired', () => ({ ...heldEvent(lock), waitedMs, waited, serverTimeMs }));
    return lock;
  }
}
