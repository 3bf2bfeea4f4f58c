import { Acquisition } from './acquisition.js';
import { failedEvent } from './acquire-failed.js';
import { type AcquisitionHost, type Waiting, type Wanted } from './acquisition-host.js';
import { attemptIds } from './attempt-ids.js';
import { type Clock } from './clock.js';
import { commandTimeoutMs } from './command-times.js';
import { givingBack } from './give-back.js';
import { heldEvent, heldMsOf } from './held-event.js';
import { type HeldHandle, type WorkOutcome } from './held-handle.js';
import { type Grant, HeldLock, type LockKeeper } from './held-lock.js';
import { JoinedLock } from './joined-lock.js';
import { HandleRegistry } from './lock-handle.js';
import { LockEvents } from './lock-events.js';
import { type LockLabel, NO_LABEL } from './lock-label.js';
import { type ResolvedLockOptions } from './lock-options.js';
import { type FireClaim, type LockStore, type WakeUp, type WakeUpListener } from './lock-store.js';
import { type LockLostError, LockNotHeldError } from './lock.errors.js';
import { shutdownError, throwIfLost, unconfirmedError } from './locker-errors.js';
import { Releaser } from './releaser.js';
import { type Reporter } from './reporter.js';
import { TimerQueue } from './timer-queue.js';
import { lossReason, Watchdog } from './watchdog.js';

/** How long a release may keep its caller waiting; it goes on in the background until the lease is over. */
const RELEASE_PATIENCE_MS = 1_000;

/** How long the last releases may take at a shutdown when the holders have used up all of its time. */
const LAST_RELEASES_MS = 250;

/** Acquires locks of one store, keeps their leases, gives them back; all that is alive in between is here. */
export class Locker implements LockKeeper, WakeUpListener {
  readonly events: LockEvents;
  readonly timers: TimerQueue;
  readonly handles: HandleRegistry;
  readonly #acquisitions = new Map<string, Waiting>();
  readonly #held = new Map<string, HeldLock>();
  readonly #watchdog: Watchdog;
  readonly #releaser: Releaser;
  readonly #host: AcquisitionHost;
  #isClosing = false;
  #onRelease: (() => void) | null = null;

  constructor(
    readonly clock: Clock,
    private readonly store: LockStore,
    private readonly reporter: Reporter,
    holder: string,
  ) {
    this.events = new LockEvents(reporter);
    this.timers = new TimerQueue(clock);
    this.handles = new HandleRegistry(reporter);
    this.#watchdog = new Watchdog(clock, this.timers, store, reporter, this.events);
    this.#releaser = new Releaser(clock, this.timers, store, reporter);
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
      isHeld: (attempt) => this.#held.has(attempt),
      abandon: ({ keys, claim, options: { leaseMs } }, attempt, wasGranted) => {
        const until = clock.now() + leaseMs;
        for (const release of givingBack({ keys, attempt, leaseMs, claim: wasGranted ? undefined : claim })) {
          void this.#releaser.release(release, until, commandTimeoutMs(leaseMs));
        }
      },
    };
    store.listen(this);
  }

  /** How much is alive: locks, waiting acquisitions, releases under way and timers. For tests of leaks. */
  get live(): { locks: number; waiting: number; releasing: number; timers: number } {
    return {
      locks: this.#watchdog.size,
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
  ): Promise<HeldLock | JoinedLock> {
    const named = this.checkKeys(keys);
    const groups = named.length === 1 ? [named] : this.store.groups(named);
    const call = { options, label, claim, startedAt };
    if (groups.length === 1) return this.#acquireGroup(groups[0]!, named, call);
    const parts: HeldHandle[] = [];
    try {
      for (const group of groups) parts.push(await this.#acquireGroup(group, group, call));
      throwIfLost(parts);
    } catch (error) {
      // Within the limit for the whole call, also when Redis is away by now.
      const patienceMs = startedAt + options.waitMs + RELEASE_PATIENCE_MS - this.clock.now();
      const released = Promise.all(parts.map((part) => part.release()));
      await this.timers.within(Math.min(patienceMs, RELEASE_PATIENCE_MS), released);
      throw error;
    }
    return new JoinedLock(named, parts);
  }

  onWakeUp(attempt: string, wakeUp: WakeUp): void {
    const acquisition = this.#acquisitions.get(attempt);
    if (acquisition) return acquisition.onWakeUp(wakeUp);
    if (wakeUp.kind !== 'revoked') return;
    const revoke = () => this.#held.get(attempt)?.lose('released-by-operator');
    revoke();
    // It may be told in one piece with the grant, whose lock is there a microtask later.
    void Promise.resolve().then(revoke);
  }

  onListening(): void {
    for (const acquisition of this.#acquisitions.values()) acquisition.onWakeUp({ kind: 'wake' });
  }

  onGap(): void {
    this.onListening();
    this.#watchdog.renewAll();
  }

  async extend(lock: HeldLock, leaseMs: number): Promise<void> {
    const renewal = await this.#watchdog.extend(lock, leaseMs);
    if (lock.lost) throw lock.lost;
    if (lock.isEnded) throw new LockNotHeldError(`The lock "${lock.key}" was released while it was extended.`, lock);
    if (renewal.outcome === 'unknown') throw unconfirmedError(lock, 'extended', renewal.cause);
  }

  async downgrade(lock: HeldLock): Promise<void> {
    const timeoutMs = commandTimeoutMs(lock.grant.leaseMs);
    const replies = await Promise.allSettled(lock.grant.holds.map((hold) => this.store.downgrade(hold, timeoutMs)));
    for (const [i, reply] of replies.entries()) {
      if (reply.status === 'rejected') throw unconfirmedError(lock, 'downgraded', reply.reason);
      const { fencingToken } = lock.grant.holds[i]!;
      if (reply.value.outcome === 'lost') lock.lose(lossReason(fencingToken, reply.value));
    }
    if (lock.lost) throw lock.lost;
  }

  onLost(lock: HeldLock, error: LockLostError): void {
    this.#watchdog.unwatch(lock);
    this.#held.delete(lock.grant.attempt);
    this.reporter.error(error.message);
    const { reason } = error;
    this.events.emit('lost', () => ({ ...heldEvent(lock), heldMs: heldMsOf(lock), reason, error }));
    this.#onRelease?.();
  }

  async release(lock: HeldLock, outcome: WorkOutcome | undefined): Promise<void> {
    this.#watchdog.unwatch(lock);
    this.#held.delete(lock.grant.attempt);
    const heldMs = heldMsOf(lock);
    const { holds, attempt, holdAtLeastMs, leaseMs, job } = lock.grant;
    const runOutcome = job === undefined ? undefined : outcome;
    const released = Promise.all(
      holds.map(async (hold) => {
        const request = { key: hold.key, attempt, minHoldMs: holdAtLeastMs, leaseMs, job, runOutcome };
        const { reply, asked } = await this.#releaser.release(request, lock.deadline, commandTimeoutMs(leaseMs));
        // When an earlier command went unanswered it may have been the one that released.
        if (asked > 1 || reply?.outcome === 'released' || reply?.outcome === 'again') return reply?.holds;
        if (!reply) return undefined;
        const { lastToken } = reply;
        lock.loseAtRelease(lossReason(hold.fencingToken, { lastToken, forced: reply.outcome === 'forced' }));
        return reply.holds;
      }),
    ).then((counts) => {
      if (lock.lost) return;
      this.events.emit('released', () => ({ ...heldEvent(lock), heldMs, holds: counts[0] }));
    });
    // Who lost the lock is told at once; whether the store still heard of the release is of no use to them.
    if (!lock.lost) await this.timers.within(RELEASE_PATIENCE_MS, released);
    this.#onRelease?.();
  }

  /**
   * Shuts down: no new acquires, waiting ends with a `LockShutdownError`, holders have `drainMs` to finish; then their
   * signals fire, and what is left is released.
   */
  async close(drainMs: number): Promise<void> {
    this.#isClosing = true;
    const until = this.clock.now() + drainMs;
    for (const acquisition of this.#acquisitions.values()) acquisition.giveUp(shutdownError());
    const drained = new Promise<void>((resolve) => {
      this.#onRelease = () => this.#watchdog.size === 0 && resolve();
      this.#onRelease();
    });
    await this.timers.within(drainMs, drained);
    for (const lock of this.#watchdog.locks) {
      this.reporter.warn(`The lock "${lock.key}" was still held ${drainMs} ms after the shutdown began: releasing it.`);
      lock.lose('released-by-operator', shutdownError());
      lock.endNow();
    }
    this.#releaser.hurry();
    const leftMs = Math.max(until - this.clock.now(), LAST_RELEASES_MS);
    await this.timers.within(Math.min(leftMs, RELEASE_PATIENCE_MS), this.#releaser.idle());
    this.#releaser.stop();
  }

  async #acquireGroup(
    group: readonly string[],
    named: readonly string[],
    call: Pick<Wanted, 'options' | 'label' | 'claim' | 'startedAt'>,
  ): Promise<HeldLock> {
    const wanted = { ...call, keys: group, name: named.join(', ') };
    let acquisition: Acquisition | undefined;
    try {
      if (this.#isClosing) throw shutdownError();
      call.options.signal?.throwIfAborted();
      acquisition = new Acquisition(this.#host, wanted);
      return this.#hold(wanted, named, await acquisition.granted, acquisition.hasWaited);
    } catch (error) {
      const waited = acquisition?.hasWaited ?? false;
      this.events.emit('acquireFailed', () => failedEvent(wanted, this, error, waited));
      throw error;
    }
  }

  #hold(wanted: Wanted, named: readonly string[], grant: Grant, waited: boolean): HeldLock {
    if (this.#isClosing) {
      // The shutdown began in the very turn of the grant, and did not see this lock.
      this.#host.abandon(wanted, grant.attempt, false);
      throw shutdownError();
    }
    const holds = named.map((key) => grant.holds.find((hold) => hold.key === key)!);
    const lock = new HeldLock({ ...grant, holds }, this);
    this.#held.set(grant.attempt, lock);
    this.#watchdog.watch(lock);
    const { waitedMs, serverTimeMs } = grant;
    this.events.emit('acquired', () => ({ ...heldEvent(lock), waitedMs, waited, serverTimeMs }));
    return lock;
  }
}
