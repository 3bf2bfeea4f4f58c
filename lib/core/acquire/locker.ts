import { AsyncLocalStorage } from 'node:async_hooks';
import { Acquisition } from './acquisition.js';
import { failedEvent, type AcquisitionHost, releasesOf, type Waiting, type LockRequest } from './request.js';
import { attemptIds } from '../store/attempt-ids.js';
import { AwaitedCalls } from '../awaited-calls.js';
import { type Clock } from '../clock.js';
import { commandTimeoutMs, RELEASE_PATIENCE_MS } from '../timing.js';
import { type Hold } from '../hold/hold.js';
import { Holds } from '../hold/holds.js';
import { type Grant, type StoreHold } from '../hold/store-hold.js';
import { CompositeHold, throwIfLost } from '../hold/composite-hold.js';
import { HandleRegistry } from '../hold/handle.js';
import { LockEvents, type LockLabel, NO_LABEL } from '../lock.events.js';
import { type ResolvedLockOptions } from '../lock.options.js';
import { type FireClaim, type LockStore, type WakeUp, type WakeUpListener } from '../store/lock-store.js';
import { shutdownError } from '../error-texts.js';
import { LogLimit } from '../log-limit.js';
import { Releaser } from '../hold/releaser.js';
import { type Reporter } from '../reporter.js';
import { TimerQueue } from '../timer-queue.js';

/** Acquires the locks of a module from its store. */
export class Locker implements WakeUpListener {
  readonly events: LockEvents;
  readonly timers: TimerQueue;
  readonly handles: HandleRegistry;
  readonly awaited: AwaitedCalls;
  readonly holds: Holds;
  readonly #acquisitions = new Map<string, Waiting>();
  readonly #releaser: Releaser;
  readonly #host: AcquisitionHost;
  readonly #thrown: LogLimit;
  /** For what comes by a timer, a message or a look at a lock: it is no part of the call in whose context it comes. */
  readonly #inOwnContext = AsyncLocalStorage.snapshot();
  protected isClosing = false;

  constructor(
    readonly clock: Clock,
    private readonly store: LockStore,
    reporter: Reporter,
    holder: string,
  ) {
    this.timers = new TimerQueue(clock);
    this.#thrown = new LogLimit(clock, this.timers, 'listeners threw', (line) => reporter.error(line));
    this.events = new LockEvents({ error: (line) => this.#thrown.add(line) });
    this.handles = new HandleRegistry(reporter);
    this.awaited = new AwaitedCalls(clock);
    const { timers, events, awaited } = this;
    const releaser = (this.#releaser = new Releaser(clock, timers, store, reporter));
    this.holds = new Holds({ clock, timers, store, reporter, events, awaited, releaser });
    this.#host = {
      clock,
      timers: this.timers,
      store,
      events: this.events,
      holder,
      nextAttempt: attemptIds(store.clientId),
      onAttempt: (acquisition, before, now) => {
        if (before !== null) this.#acquisitions.delete(before);
        if (now !== null) this.#acquisitions.set(now, acquisition);
      },
      isHeld: (attempt) => this.holds.has(attempt),
      abandon: (wanted, attempt, state) => {
        const { leaseMs, holdAtLeastMs } = wanted.options;
        const until = clock.now() + Math.max(leaseMs, holdAtLeastMs);
        const releases = releasesOf(wanted, attempt, state);
        this.#inOwnContext(() => {
          for (const release of releases) void this.#releaser.giveBack(release, until, commandTimeoutMs(leaseMs));
        });
      },
    };
    store.listen(this);
  }

  /** How much is alive: locks, waiting acquisitions, releases under way and timers. For tests of leaks. */
  get live(): { locks: number; waiting: number; releasing: number; timers: number } {
    return {
      locks: this.holds.size,
      waiting: this.#acquisitions.size,
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
    const call = { options, label, claim, startedAt };
    if (groups.length === 1) return this.#acquireGroup(groups[0]!, named, call);
    const parts: Hold[] = [];
    try {
      for (const group of groups) parts.push(await this.#acquireGroup(group, group, call));
      throwIfLost(parts);
    } catch (error) {
      // Within the limit for the whole call, also when Redis is away by now.
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
    const acquisition = this.#acquisitions.get(attempt);
    if (acquisition) return acquisition.onWakeUp(wakeUp);
    if (wakeUp.kind === 'revoked') this.holds.revoke(attempt);
  }

  onListening(): void {
    this.#inOwnContext(() => {
      for (const acquisition of this.#acquisitions.values()) acquisition.onWakeUp({ kind: 'wake' });
    });
  }

  onGap(): void {
    this.onListening();
    this.holds.renewAll();
  }

  /**
   * Shuts down: no new acquires, waiting ends with a `LockShutdownError`, holders have `drainMs` to finish; then their
   * signals fire, and what is left is released.
   */
  async close(drainMs: number): Promise<void> {
    this.isClosing = true;
    for (const acquisition of this.#acquisitions.values()) acquisition.giveUp(shutdownError());
    await this.holds.close(drainMs);
    this.#thrown.flush();
  }

  async #acquireGroup(
    group: readonly string[],
    named: readonly string[],
    call: Pick<LockRequest, 'options' | 'label' | 'claim' | 'startedAt'>,
  ): Promise<StoreHold> {
    const wanted = { ...call, keys: group, name: named.join(', ') };
    let acquisition: Acquisition | undefined;
    try {
      if (this.isClosing) throw shutdownError();
      call.options.signal?.throwIfAborted();
      acquisition = new Acquisition(this.#host, wanted);
      return this.#hold(wanted, named, await acquisition.granted, acquisition.hasWaited);
    } catch (error) {
      const waited = acquisition?.hasWaited ?? false;
      this.events.emit('acquireFailed', () => failedEvent(wanted, this, error, waited));
      throw error;
    }
  }

  #hold(wanted: LockRequest, named: readonly string[], grant: Grant, waited: boolean): StoreHold {
    if (this.isClosing) {
      // The shutdown began in the very turn of the grant, and did not see this lock.
      this.#host.abandon(wanted, grant.attempt, { wasGranted: false, unanswered: grant.unanswered() });
      throw shutdownError();
    }
    const holds = named.map((key) => grant.holds.find((hold) => hold.key === key)!);
    const lock = this.holds.add({ ...grant, holds });
    const { waitedMs, serverTimeMs } = grant;
    this.events.emit('acquired', () => ({ ...lock.event, waitedMs, waited, serverTimeMs }));
    return lock;
  }
}
