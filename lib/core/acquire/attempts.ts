import { AsyncLocalStorage } from 'node:async_hooks';
import { type Clock } from '../clock.js';
import { FreshMap } from '../fresh-map.js';
import { type Moment } from '../hold/lease.js';
import { type Releaser } from '../hold/releaser.js';
import { type Grant } from '../hold/hold-terms.js';
import { type StoreHold } from '../hold/store-hold.js';
import { type LockError } from '../lock.errors.js';
import { type LockEvents } from '../lock.events.js';
import { releasesOfAttempt } from '../store/attempt-ids.js';
import { type AcquireOutcome, type CallbackStore } from '../store/callback-store.js';
import { type AcquireReply, type LockStore, type WakeUp } from '../store/lock-store.js';
import { type TimerQueue } from '../timer-queue.js';
import { commandTimeoutMs } from '../timing.js';
import { type AcquireCall } from './acquire-call.js';
import { Attempt } from './attempt.js';
import { acquireRequestOf, type LockRequest, requestedLeaseMs } from './request.js';
import { type Randomness } from '../randomness.js';

/** A call that acquires a lock, and has not ended yet. */
export interface WaitingCall {
  onWakeUp(wakeUp: WakeUp): void;
  /** Ends it with an error. */
  cancel(error: unknown): void;
}

/** A call that has sent a command. */
interface AskingCall {
  /** Whether it had to wait before. */
  readonly hasWaited: boolean;
  onReply(attempt: Attempt, sent: Moment, reply: AcquireReply): void;
  onFailure(attempt: Attempt, error: unknown): void;
}

/** A command of an attempt, which is under way. */
class SentCommand implements AcquireOutcome {
  constructor(
    private readonly attempt: Attempt,
    private readonly sent: Moment,
    private readonly call: AskingCall,
    private readonly attempts: Attempts,
  ) {}

  resolve(reply: AcquireReply): void {
    this.call.onReply(this.attempt, this.sent, reply);
  }

  /** Never at once: the call may not know yet that it was sent. */
  reject(error: unknown): void {
    void Promise.resolve().then(() => this.call.onFailure(this.attempt, error));
  }

  onLate(reply: AcquireReply): void {
    this.attempts.giveBackLate(this.attempt, reply);
  }
}

/** The parts of an attempt that are needed to give it back. */
export type GivenBack = Pick<Attempt, 'id' | 'request' | 'wasGranted' | 'mayArrive'>;

/** The collaborators of `Attempts`. */
export interface AttemptsParts {
  readonly clock: Clock;
  readonly store: LockStore & Partial<CallbackStore>;
  readonly events: LockEvents;
  readonly releaser: Pick<Releaser, 'giveBack'>;
  /** Returns the id of a new attempt. */
  readonly nextId: () => string;
  /** Whether the lock that was granted to an attempt is held. */
  readonly isHeld: (id: string) => boolean;
}

/** The collaborators of an `Acquisition`. */
export interface AcquireContext {
  readonly clock: Clock;
  readonly random: Randomness;
  readonly timers: TimerQueue;
  readonly events: LockEvents;
  readonly attempts: Attempts;
  /** Makes the hold of a grant, and ends the call with it. */
  grant(call: AcquireCall, grant: Grant): StoreHold;
  /** Ends a call without the lock. */
  fail(call: AcquireCall, error: unknown): void;
  /** The time of a call is up: it will fail with this error. */
  onTimeout(request: LockRequest, error: LockError): void;
}

/** Makes, sends and gives back the attempts of a module, and knows the call of each. */
export class Attempts {
  readonly #calls = new FreshMap<string, WaitingCall>();
  /** A release that gives an attempt back is no part of the call that made the attempt. */
  readonly #inOwnContext = AsyncLocalStorage.snapshot();

  constructor(private readonly parts: AttemptsParts) {}

  /** How many calls are acquiring a lock. */
  get size(): number {
    return this.#calls.size;
  }

  /** All calls that are acquiring a lock. */
  get calls(): Iterable<WaitingCall> {
    return this.#calls.values();
  }

  /** The call whose present attempt this is; undefined if the call has ended or uses another attempt. */
  callOf(id: string): WaitingCall | undefined {
    return this.#calls.get(id);
  }

  /** Makes a new attempt of this call. */
  begin(call: WaitingCall, request: LockRequest): Attempt {
    const attempt = new Attempt(this.parts.nextId(), request);
    this.#calls.set(attempt.id, call);
    return attempt;
  }

  /** Forgets an attempt: its call has ended, or goes on with another one. */
  end({ id }: Attempt): void {
    this.#calls.delete(id);
  }

  /** Makes the next attempt of a call when the store has used up this one. */
  replace(attempt: Attempt, call: WaitingCall): Attempt {
    // A spent attempt has stayed in the queues to be woken. It must leave them before the new one asks.
    if (attempt.isSpent) this.giveBack(attempt);
    this.end(attempt);
    return this.begin(call, attempt.request);
  }

  /** Like `replace`, for an attempt that was released, by us or by an operator. */
  replaceReleased(attempt: Attempt, call: WaitingCall): Attempt {
    // An operator may have revoked only one of several keys, or nodes: holds of the others would block the new attempt.
    if (attempt.request.keys.length > 1 || attempt.isRevoked) this.giveBack(attempt);
    return this.replace(attempt, call);
  }

  /**
   * Sends a command of this attempt, and tells the call its outcome later. A reply that comes after a rejection is given back.
   */
  send(attempt: Attempt, sent: Moment, call: AskingCall): void {
    attempt.onSent(sent.at);
    const { id, request } = attempt;
    const { store, events } = this.parts;
    const command = new SentCommand(attempt, sent, call, this);
    try {
      const asked = acquireRequestOf(request, id, call.hasWaited);
      const timeoutMs = commandTimeoutMs(request.options.leaseMs);
      if (store.startAcquire && !events.hearsAnswers()) return store.startAcquire(asked, timeoutMs, command);
      const onLate = (reply: AcquireReply): void => command.onLate(reply);
      void store.acquire(asked, timeoutMs, onLate).then(
        (reply) => command.resolve(reply),
        (error: unknown) => call.onFailure(attempt, error),
      );
    } catch (error) {
      // A store that throws, against its contract, is like one that rejects.
      command.reject(error);
    }
  }

  /** Releases all that an attempt has, or may still get, in the store. Unless it was granted, its fire may be claimed again. */
  giveBack({ id, request, wasGranted, mayArrive }: GivenBack): void {
    const { keys, options } = request;
    const leaseMs = requestedLeaseMs(request);
    const claim = wasGranted ? undefined : request.claim;
    // The lock of a call that had it stays taken for so long, even if this overtakes its release.
    const holdAtLeastMs = wasGranted ? options.holdAtLeastMs : 0;
    const releases = releasesOfAttempt({ keys, attempt: id, leaseMs, claim, unanswered: mayArrive, holdAtLeastMs });
    const until = this.parts.clock.now() + leaseMs;
    const timeoutMs = commandTimeoutMs(options.leaseMs);
    this.#inOwnContext(() => {
      for (const release of releases) this.parts.releaser.giveBack(release, until, timeoutMs);
    });
  }

  /** Gives back the attempt of a call that is cancelled, unless it has left nothing in the store. */
  giveBackCancelled(attempt: Attempt, hasPlace: boolean): void {
    const { id, isUnanswered, sentAt } = attempt;
    const mayArrive = isUnanswered || (sentAt !== null && !this.parts.store.withdraw?.(id));
    // Without a place in a queue, a busy attempt leaves nothing behind.
    if (hasPlace || mayArrive) this.giveBack(attempt);
  }

  /** Gives back the attempt of a reply that no call waits for any more. */
  giveBackLate(attempt: Attempt, { outcome }: AcquireReply): void {
    // A call that goes on with this attempt asks again; a call that holds the lock has had its grant.
    if (this.#calls.has(attempt.id) || this.parts.isHeld(attempt.id)) return;
    if (outcome === 'granted' || outcome === 'busy') this.giveBack(attempt);
  }
}
