import { AsyncLocalStorage } from 'node:async_hooks';
import { holdAtLeastMsOf } from '../acquire/request.js';
import { type AwaitedCalls } from '../awaited-calls.js';
import { type Clock } from '../clock.js';
import { releasedMeanwhileError, shutdownError, unconfirmedError } from '../error-texts.js';
import { FreshMap } from '../fresh-map.js';
import { type LockLostError } from '../lock.errors.js';
import { type LockEvents } from '../lock.events.js';
import { LogLimit } from '../log-limit.js';
import { durationText } from '../printable.js';
import { type Reporter } from '../reporter.js';
import { hasAdoption, storeWith } from '../store/capabilities.js';
import { type LockStore, type ReleaseReply } from '../store/lock-store.js';
import { type TimerQueue } from '../timer-queue.js';
import { commandTimeoutMs, LAST_RELEASES_MS, RELEASE_PATIENCE_MS } from '../timing.js';
import { type Ending, type EndingParts, LimitedEnding } from './ending.js';
import { Handover } from './handover.js';
import { type WorkOutcome } from './hold.js';
import { type ReleaseListener, type Releaser } from './releaser.js';
import { type Grant } from './grant.js';
import { type HoldKeeper, StoreHold } from './store-hold.js';
import { type TransferredHold } from './transfer-text.js';
import { type Renewal, Watchdog } from './watchdog.js';

/** The number of given-away attempts that are remembered. */
const MAX_GIVEN_AWAY = 10_000;

/** The collaborators of `Holds`, which the acquisitions of a module share. */
export interface HoldsParts {
  readonly clock: Clock;
  readonly timers: TimerQueue;
  readonly store: LockStore;
  readonly reporter: Reporter;
  readonly events: LockEvents;
  readonly awaited: AwaitedCalls;
  readonly releaser: Releaser;
  /** Hands a hold that its caller releases to another call; returns the hold of that call, or null. */
  readonly handOn: (hold: StoreHold) => StoreHold | null;
  /** A hold has ended, or was lost. Its release, if any, has been sent. */
  readonly onEnded: (hold: StoreHold) => void;
}

/** The holds of a module: renews their leases, reports the lost ones, and ends them in the store. */
export class Holds implements HoldKeeper {
  readonly clock: Clock;
  readonly #byAttempt = new FreshMap<string, StoreHold>();
  /** Given-away attempts, each with the time until which the store may keep its hold. */
  readonly #givenAway = new Map<string, number>();
  readonly #watchdog: Watchdog;
  readonly #losses: LogLimit;
  readonly #endings: EndingParts & Pick<HoldsParts, 'events'>;
  /** A loss may be noticed in the async context of any call, but does not belong to that call. */
  readonly #inOwnContext = AsyncLocalStorage.snapshot();
  /** Called when a hold has ended or was lost. */
  #onGone: (() => void) | null = null;

  constructor(private readonly parts: HoldsParts) {
    const { clock, timers, store, reporter, events, awaited } = parts;
    this.clock = clock;
    this.#endings = { timers, events, awaited, onGone: () => this.#onGone?.() };
    this.#watchdog = new Watchdog(clock, timers, store, reporter, events);
    this.#losses = new LogLimit(clock, timers, 'locks were lost', (line) => reporter.error(line));
  }

  get size(): number {
    return this.#byAttempt.size;
  }

  [Symbol.iterator](): Iterator<StoreHold> {
    return this.#byAttempt.values();
  }

  /** Whether the lock that was granted to this attempt is held, or may wait for the process that adopts it. */
  has(attempt: string): boolean {
    return this.#byAttempt.has(attempt) || this.#givenAway.get(attempt)! > this.clock.now();
  }

  /** Creates the hold of a grant; renews its lease until it is lost or ends. `from`: the hold of the call that handed it on. */
  add(grant: Grant, from?: StoreHold): StoreHold {
    const hold = new StoreHold(grant, this);
    this.#byAttempt.set(grant.attempt, hold);
    this.#watchdog.watch(hold, grant.receivedAt);
    if (from) this.#onHandedOn(from, hold, grant.receivedAt.at);
    return hold;
  }

  /** Ends a hold here, while the store keeps it for another call of this process. */
  endLocally(hold: StoreHold): void {
    this.parts.events.emit('released', () => ({ ...hold.event, heldMs: hold.heldMs, holds: undefined }));
    // Only now: a shutdown that a listener has begun also waits for the next holder.
    this.#remove(hold);
  }

  /** An operator revoked the lock of this attempt. */
  revoke(attempt: string): void {
    const hold = this.#byAttempt.get(attempt);
    if (hold && !hold.isOver) hold.loseInStore('revoked');
  }

  /** Renews all leases now: messages about lost locks may have been missed. */
  renewAll(): void {
    this.#watchdog.renewAll();
  }

  async extend(hold: StoreHold, leaseMs: number): Promise<void> {
    checkConfirmed(hold, 'extended', await this.parts.awaited.keepAlive(this.#watchdog.extend(hold, leaseMs)));
  }

  checkTransfer(): void {
    storeWith(this.parts.store, hasAdoption, '`transfer()`');
  }

  downgrade(hold: StoreHold): Promise<void> {
    return this.parts.awaited.keepAlive(this.#downgrade(hold));
  }

  onLost(hold: StoreHold, error: LockLostError): void {
    this.#remove(hold);
    this.#inOwnContext(() => {
      const earlier = hold.handover?.unproven ?? [];
      this.#losses.add(earlier.length === 0 ? error.message : `${error.message} ${earlierText(earlier.length)}`);
      const { event, heldMs } = hold;
      const { reason } = error;
      this.parts.events.emit('lost', () => ({ ...event, heldMs, reason, error, earlier: earlier.map((e) => e.event) }));
    });
    this.#onGone?.();
    this.parts.onEnded(hold);
  }

  giveAway(hold: StoreHold): TransferredHold {
    const { events, store, onEnded } = this.parts;
    const transferred = transferredHold(hold, store.keyPrefix);
    this.#remove(hold);
    // A node of a quorum may grant it long after a majority did: that must not end it on all nodes.
    this.#givenAway.set(hold.attempt, hold.keptUntil);
    const [oldest] = this.#givenAway.keys();
    if (this.#givenAway.size > MAX_GIVEN_AWAY) this.#givenAway.delete(oldest!);
    events.emit('transferred', () => ({ ...hold.event, heldMs: hold.heldMs }));
    this.#onGone?.();
    onEnded(hold);
    return transferred;
  }

  end(hold: StoreHold, outcome: WorkOutcome | undefined): Ending | null {
    if (this.parts.handOn(hold)) return hold.ending;
    this.#remove(hold);
    const now = this.clock.now();
    // The holder of a lost lock does not wait for the answer of the store, because it does not need it.
    const patienceMs = hold.lost ? 0 : RELEASE_PATIENCE_MS;
    const ending = new EndingInStore(hold, now, patienceMs, this.#endings);
    for (const key of ending.keys) this.#releaseKey(ending, key, outcome, now);
    if (patienceMs === 0) ending.settle();
    this.parts.onEnded(hold);
    return ending;
  }

  /** Gives the holders `drainMs` to release their locks. Then marks the others as lost, and sends the last releases. */
  async close(drainMs: number): Promise<void> {
    const { timers, reporter, releaser } = this.parts;
    const until = this.clock.now() + drainMs;
    await timers.withTimeout(drainMs, this.#allGone());
    const log = new LogLimit(this.clock, timers, 'locks were still held', (line) => reporter.warn(line));
    for (const hold of this) {
      log.add(`The lock "${hold.key}" was still held ${durationText(drainMs)} after the shutdown began: releasing it.`);
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

  /** The call of `from` ends with the next proof, for which the store is asked now. */
  #onHandedOn(from: StoreHold, hold: StoreHold, now: number): void {
    const handover = from.handover ?? new Handover<StoreHold>();
    from.handover = hold.handover = handover;
    from.heir = hold;
    from.ending = new LimitedEnding(now, RELEASE_PATIENCE_MS, this.#endings);
    handover.add(from, from.ending);
    // A renewal of `from` may still arrive.
    hold.keepUntil(from.keptUntil);
    this.#inOwnContext(() => void this.#watchdog.prove(hold, handover));
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

  #releaseKey(ending: EndingInStore, key: string, outcome: WorkOutcome | undefined, now: number): void {
    const { hold } = ending;
    const { keptUntil, fire, leaseMs } = hold;
    const request = {
      key,
      attempt: hold.attempt,
      holdAtLeastMs: holdAtLeastMsOf(hold.request),
      // An extension may have made the lease longer.
      leaseMs: Math.max(leaseMs, Math.ceil(keptUntil - now)),
      job: fire?.job,
      runOutcome: fire && outcome,
      unanswered: hold.isUnanswered,
    };
    this.parts.releaser.giveBack(request, keptUntil, commandTimeoutMs(leaseMs), ending);
  }

  /** A renewal that does not change the lease. */
  async #downgrade(hold: StoreHold): Promise<void> {
    const renewal = await this.#watchdog.ask(hold, 0);
    if (renewal.outcome === 'lost' && !hold.isEnded) hold.loseInStore(renewal.reason);
    checkConfirmed(hold, 'downgraded', renewal);
  }
}

/** @throws LockLostError, LockNotHeldError, LockStoreError: the loss first, since the lack of an answer would hide it */
function checkConfirmed(hold: StoreHold, done: 'extended' | 'downgraded', renewal: Renewal): void {
  if (hold.lost) throw hold.lost;
  if (hold.isEnded) throw releasedMeanwhileError(hold, done);
  if (renewal.outcome === 'unknown') throw unconfirmedError(hold, done, renewal.cause);
}

/** The end of a hold while the store is asked to release its keys. Reports the release, or a loss that it finds. */
class EndingInStore extends LimitedEnding implements ReleaseListener {
  readonly keys: readonly string[];
  /** The number of keys without an answer. */
  #waitingFor: number;
  #wereHeld = true;
  /** The number of other holders of the first key. */
  #holds: number | undefined;
  readonly #events: LockEvents;

  constructor(
    readonly hold: StoreHold,
    private readonly endedAt: number,
    patienceMs: number,
    parts: EndingParts & { readonly events: LockEvents },
  ) {
    super(endedAt, patienceMs, parts);
    this.#events = parts.events;
    this.keys = hold.keys;
    this.#waitingFor = this.keys.length;
  }

  /** A key was released, or its release was given up. */
  onReleased(key: string, reply: ReleaseReply | undefined, isRepeated: boolean): void {
    const { hold } = this;
    if (!this.#wasHeld(key, reply, isRepeated)) this.#wereHeld = false;
    if (key === this.keys[0]) this.#holds = reply?.holds;
    this.#waitingFor -= 1;
    if (this.#waitingFor > 0) return;
    if (!hold.lost) {
      const heldMs = Math.round(this.endedAt - hold.sentAt);
      this.#events.emit('released', () => ({ ...hold.event, heldMs, holds: this.#holds }));
    }
    // The calls that have handed it on also had it; without an answer, they have no proof.
    if (this.#wereHeld) hold.handover?.prove(hold.handover.count);
    else hold.handover?.giveUp();
    this.settle(this.#wereHeld);
  }

  /** Whether this key was held until its release. If the answer proves that it was not, the lock is lost. */
  #wasHeld(key: string, reply: ReleaseReply | undefined, isRepeated: boolean): boolean {
    if (!reply) return false;
    const { outcome, lastToken } = reply;
    if (outcome === 'released' || outcome === 'again') return true;
    // A missing trace proves nothing if an earlier copy may have released it.
    if (!isRepeated || outcome === 'lost' || outcome === 'revoked') {
      const { hold } = this;
      const { fencingToken } = hold.refs.find((ref) => ref.key === key)!;
      hold.loseInStore(hold.lossReason(fencingToken, { lastToken, revoked: outcome === 'revoked' }));
    }
    return false;
  }
}

const earlierText = (count: number): string =>
  `${count} earlier call(s) of this process under the same grant may have run without it: see the event "lost".`;

function transferredHold(hold: StoreHold, keyPrefix = ''): TransferredHold {
  const { refs, isUnanswered: unanswered, mode, handedOn, request, heldMs } = hold;
  const { mode: grantedMode, owner, leaseMs, renew, holdAtLeastMs, ...options } = request.options;
  const maxHoldMs = Math.max(options.maxHoldMs - heldMs, 1);
  const holds = refs.map((ref) => ({ ...ref, unanswered }));
  return { keyPrefix, holds, mode, grantedMode, owner, handedOn, leaseMs, renew, maxHoldMs, holdAtLeastMs };
}
