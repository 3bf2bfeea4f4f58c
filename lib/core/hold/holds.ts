import { AsyncLocalStorage } from 'node:async_hooks';
import { type AwaitedCalls } from '../awaited-calls.js';
import { type Clock } from '../clock.js';
import { releasedMeanwhileError, shutdownError, unconfirmedError } from '../error-texts.js';
import { type LockLostError } from '../lock.errors.js';
import { type LockEvents } from '../lock.events.js';
import { LogLimit } from '../log-limit.js';
import { type Reporter } from '../reporter.js';
import { type HoldRef, type LockStore } from '../store/lock-store.js';
import { type TimerQueue } from '../timer-queue.js';
import { commandTimeoutMs, LAST_RELEASES_MS, RELEASE_PATIENCE_MS } from '../timing.js';
import { Ending } from './ending.js';
import { type WorkOutcome } from './hold.js';
import { type Releaser, type ReleaseOutcome } from './releaser.js';
import { type Grant, SharedTerms } from './hold-terms.js';
import { type HoldKeeper, StoreHold } from './store-hold.js';
import { type TransferredHold } from './transfer-text.js';
import { Watchdog } from './watchdog.js';

/** The collaborators of `Holds`, which the acquisitions of a module share. */
export interface HoldsParts {
  readonly clock: Clock;
  readonly timers: TimerQueue;
  readonly store: LockStore;
  readonly reporter: Reporter;
  readonly events: LockEvents;
  readonly awaited: AwaitedCalls;
  readonly releaser: Releaser;
  /** Hands a hold that its caller releases to another call; returns false if it has to be released in the store. */
  readonly handOn: (hold: StoreHold) => boolean;
  /** A hold has ended, or was lost. Its release, if there is one, has been sent. */
  readonly onEnded: (hold: StoreHold) => void;
}

/** The holds of a module: renews their leases, reports the lost ones, and ends them in the store. */
export class Holds implements HoldKeeper {
  readonly clock: Clock;
  readonly #byAttempt = new Map<string, StoreHold>();
  /** Attempts that were given away while a command of theirs had no answer, as long as the store may have their holds. */
  readonly #givenAway = new Set<string>();
  readonly #watchdog: Watchdog;
  readonly #losses: LogLimit;
  readonly #terms = new SharedTerms();
  /** A loss may be noticed in the context of any call, but is not part of that call. */
  readonly #inOwnContext = AsyncLocalStorage.snapshot();
  /** Called when a hold has ended or was lost. */
  #onGone: (() => void) | null = null;

  constructor(private readonly parts: HoldsParts) {
    const { clock, timers, store, reporter, events } = parts;
    this.clock = clock;
    this.#watchdog = new Watchdog(clock, timers, store, reporter, events);
    this.#losses = new LogLimit(clock, timers, 'locks were lost', (line) => reporter.error(line));
  }

  get size(): number {
    return this.#byAttempt.size;
  }

  [Symbol.iterator](): Iterator<StoreHold> {
    return this.#byAttempt.values();
  }

  /** Whether the lock that was granted to this attempt is held, or waits for the process that adopts it. */
  has(attempt: string): boolean {
    return this.#byAttempt.has(attempt) || this.#givenAway.has(attempt);
  }

  /** Makes the hold of a grant; renews its lease until it is lost or ends. */
  add(grant: Grant): StoreHold {
    const hold = new StoreHold(grant, this.#terms.of(grant), this);
    this.#byAttempt.set(grant.attempt, hold);
    this.#watchdog.watch(hold);
    return hold;
  }

  /** Ends a hold here, while the store keeps it for another call of this process. */
  endLocally(hold: StoreHold): void {
    const { heldMs } = hold;
    this.#remove(hold);
    this.parts.events.emit('released', () => ({ ...hold.event, heldMs, holds: undefined }));
  }

  /** An operator revoked the lock of this attempt. */
  revoke(attempt: string): void {
    this.#byAttempt.get(attempt)?.lose('revoked');
  }

  /** Renews all leases now: messages about lost locks may have been missed. */
  renewAll(): void {
    this.#watchdog.renewAll();
  }

  async extend(hold: StoreHold, leaseMs: number): Promise<void> {
    const renewal = await this.parts.awaited.keepAlive(this.#watchdog.extend(hold, leaseMs));
    if (hold.lost) throw hold.lost;
    if (hold.isEnded) throw releasedMeanwhileError(hold);
    if (renewal.outcome === 'unknown') throw unconfirmedError(hold, 'extended', renewal.cause);
  }

  downgrade(hold: StoreHold): Promise<void> {
    return this.parts.awaited.keepAlive(this.#downgrade(hold));
  }

  onLost(hold: StoreHold, error: LockLostError): void {
    this.#remove(hold);
    this.#inOwnContext(() => {
      this.#losses.add(error.message);
      this.parts.events.emit('lost', () => ({ ...hold.event, heldMs: hold.heldMs, reason: error.reason, error }));
    });
    this.#onGone?.();
    this.parts.onEnded(hold);
  }

  giveAway(hold: StoreHold): TransferredHold {
    const { timers, events, store, onEnded } = this.parts;
    const transferred = transferredHold(hold, store.keyPrefix);
    this.#remove(hold);
    if (hold.isUnanswered) {
      this.#givenAway.add(hold.attempt);
      timers.schedule(hold.keptUntil, () => this.#givenAway.delete(hold.attempt));
    }
    events.emit('transferred', () => ({ ...hold.event, heldMs: hold.heldMs }));
    this.#onGone?.();
    onEnded(hold);
    return transferred;
  }

  end(hold: StoreHold, outcome: WorkOutcome | undefined): Ending | null {
    if (this.parts.handOn(hold)) return null;
    this.#remove(hold);
    const { awaited, timers } = this.parts;
    // The holder of a lost lock does not wait for the answer of the store, which is of no use to it.
    const patienceMs = hold.lost ? 0 : RELEASE_PATIENCE_MS;
    const ending = new Ending(() => {
      patience.cancel();
      awaited.end();
      this.#onGone?.();
    });
    awaited.begin();
    const patience = timers.schedule(this.clock.now() + patienceMs, () => ending.settle(false));
    this.#endInStore(hold, outcome, ending);
    if (patienceMs === 0) ending.settle(false);
    this.parts.onEnded(hold);
    return ending;
  }

  /** Gives the holders `drainMs` to release their locks. Then marks the rest as lost, and sends the last releases. */
  async close(drainMs: number): Promise<void> {
    const { timers, reporter, releaser } = this.parts;
    const until = this.clock.now() + drainMs;
    await timers.withTimeout(drainMs, this.#allGone());
    const log = new LogLimit(this.clock, timers, 'locks were still held', (line) => reporter.warn(line));
    for (const hold of this) {
      log.add(`The lock "${hold.key}" was still held ${drainMs} ms after the shutdown began: releasing it.`);
      hold.lose('shutdown', shutdownError());
      hold.endLost();
    }
    log.flush();
    releaser.retryNow();
    const leftMs = Math.max(until - this.clock.now(), LAST_RELEASES_MS);
    await timers.withTimeout(Math.min(leftMs, RELEASE_PATIENCE_MS), releaser.idle());
    releaser.stop();
    this.#watchdog.stop();
    this.#losses.flush();
  }

  #remove(hold: StoreHold): void {
    this.#watchdog.unwatch(hold);
    this.#byAttempt.delete(hold.attempt);
  }

  #allGone(): Promise<void> {
    return new Promise((resolve) => {
      this.#onGone = () => this.size === 0 && resolve();
      this.#onGone();
    });
  }

  /** Settles `ending` when all keys are released. Reports the release, or a loss that it finds. */
  #endInStore(hold: StoreHold, outcome: WorkOutcome | undefined, ending: Ending): void {
    const { heldMs, refs } = hold;
    let waitingFor = refs.length;
    let wereHeld = true;
    let holds: number | undefined;
    for (const ref of refs) {
      this.#releaseKey(hold, ref, outcome, (released) => {
        if (!this.#wasHeld(hold, ref, released)) wereHeld = false;
        if (ref === refs[0]) holds = released.reply?.holds;
        waitingFor -= 1;
        if (waitingFor > 0) return;
        if (!hold.lost) this.parts.events.emit('released', () => ({ ...hold.event, heldMs, holds }));
        ending.settle(wereHeld);
      });
    }
  }

  #releaseKey(
    hold: StoreHold,
    { key, attempt }: HoldRef,
    outcome: WorkOutcome | undefined,
    onReleased: (released: ReleaseOutcome) => void,
  ): void {
    const { holdAtLeastMs, leaseMs, fire } = hold.terms;
    const request = {
      key,
      attempt,
      holdAtLeastMs,
      // An extension may have made the lease longer.
      leaseMs: Math.max(leaseMs, Math.ceil(hold.keptUntil - this.clock.now())),
      job: fire?.job,
      runOutcome: fire && outcome,
      unanswered: hold.isUnanswered,
    };
    this.parts.releaser.giveBack(request, hold.keptUntil, commandTimeoutMs(leaseMs), onReleased);
  }

  /** Whether this key was held until its release. If the only try finds that it was not, the lock is lost. */
  #wasHeld(hold: StoreHold, { fencingToken }: HoldRef, { reply, tries }: ReleaseOutcome): boolean {
    const wasHeld = reply?.outcome === 'released' || reply?.outcome === 'again';
    // After a try without an answer, any other reply proves nothing: that try may have released it.
    if (reply && tries === 1 && !wasHeld) {
      const { lastToken } = reply;
      hold.loseAtEnd(hold.lossReason(fencingToken, { lastToken, revoked: reply.outcome === 'revoked' }));
    }
    return wasHeld;
  }

  async #downgrade(hold: StoreHold): Promise<void> {
    const { refs } = hold;
    const asking = refs.map((ref) => this.parts.store.downgrade(ref, commandTimeoutMs(hold.terms.leaseMs)));
    for (const [i, reply] of (await Promise.allSettled(asking)).entries()) {
      if (reply.status === 'rejected') throw unconfirmedError(hold, 'downgraded', reply.reason);
      if (reply.value.outcome === 'lost') hold.lose(hold.lossReason(refs[i]!.fencingToken, reply.value));
    }
    if (hold.lost) throw hold.lost;
  }
}

function transferredHold(hold: StoreHold, keyPrefix = ''): TransferredHold {
  const { refs, isUnanswered: unanswered, mode, handedOn, terms, heldMs } = hold;
  const { mode: grantedMode, owner, leaseMs, renew, holdAtLeastMs } = terms;
  const maxHoldMs = Math.max(terms.maxHoldMs - heldMs, 1);
  const holds = refs.map((ref) => ({ ...ref, unanswered }));
  return { keyPrefix, holds, mode, grantedMode, owner, handedOn, leaseMs, renew, maxHoldMs, holdAtLeastMs };
}
