import { AsyncLocalStorage } from 'node:async_hooks';
import { type Clock } from '../clock.js';
import { type Releaser } from '../hold/releaser.js';
import { releasesOfAttempt } from '../store/attempt-ids.js';
import { type AcquireReply, type LockStore, type WakeUp } from '../store/lock-store.js';
import { type LockEvents } from '../lock.events.js';
import { type TimerQueue } from '../timer-queue.js';
import { commandTimeoutMs } from '../timing.js';
import { Attempt } from './attempt.js';
import { acquireRequestOf, type LockRequest } from './request.js';

/** A call that acquires a lock, and has not ended yet. */
export interface WaitingCall {
  onWakeUp(wakeUp: WakeUp): void;
  /** Ends it with an error. */
  cancel(error: unknown): void;
}

/** An attempt, as it is given back. */
export type GivenBack = Pick<Attempt, 'id' | 'request' | 'wasGranted' | 'mayArrive'>;

/** What the attempts of a module are made, sent and given back with. */
export interface AttemptsParts {
  readonly clock: Clock;
  readonly store: LockStore;
  readonly releaser: Pick<Releaser, 'giveBack'>;
  /** Returns the id of a new attempt. */
  readonly nextId: () => string;
  /** Whether the lock that was granted to an attempt is held. */
  readonly isHeld: (id: string) => boolean;
}

/** What the acquisitions of a module work with. */
export interface AcquireContext {
  readonly clock: Clock;
  readonly timers: TimerQueue;
  readonly events: LockEvents;
  readonly attempts: Attempts;
}

/** The attempts of a module: makes and sends them, knows the call of each, and gives them back. */
export class Attempts {
  readonly #calls = new Map<string, WaitingCall>();
  /** A release is no part of the call whose attempt it gives back. */
  readonly #inOwnContext = AsyncLocalStorage.snapshot();

  constructor(private readonly parts: AttemptsParts) {}

  /** How many calls acquire a lock. */
  get size(): number {
    return this.#calls.size;
  }

  /** All calls that acquire a lock. */
  get calls(): Iterable<WaitingCall> {
    return this.#calls.values();
  }

  /** The call that goes on with this attempt; undefined if it has ended. */
  callOf(id: string): WaitingCall | undefined {
    return this.#calls.get(id);
  }

  /** Returns a new attempt of this call. */
  begin(call: WaitingCall, request: LockRequest): Attempt {
    const attempt = new Attempt(this.parts.nextId(), request);
    this.#calls.set(attempt.id, call);
    return attempt;
  }

  /** The call has ended, or goes on with another attempt. */
  end({ id }: Attempt): void {
    this.#calls.delete(id);
  }

  /** Returns the attempt with which a call goes on when the store has used up this one. */
  replace(attempt: Attempt, call: WaitingCall): Attempt {
    // A spent attempt has stayed in the queues so that it is woken. It leaves them before the new one asks.
    if (attempt.isSpent) this.giveBack(attempt);
    this.end(attempt);
    return this.begin(call, attempt.request);
  }

  /** As `replace`, for an attempt that was released, by us or by an operator. */
  replaceReleased(attempt: Attempt, call: WaitingCall): Attempt {
    // An operator may have revoked one of several keys, or nodes: what the attempt has of the others would be in our way.
    if (attempt.request.keys.length > 1 || attempt.isRevoked) this.giveBack(attempt);
    return this.replace(attempt, call);
  }

  /** Sends a command of this attempt. A reply that comes after the returned promise was rejected is given back. */
  send(attempt: Attempt, sentAt: number): Promise<AcquireReply> {
    attempt.onSent(sentAt);
    const { id, request } = attempt;
    const onLate = (reply: AcquireReply): void => this.giveBackLate(attempt, reply);
    return this.parts.store.acquire(acquireRequestOf(request, id), commandTimeoutMs(request.options.leaseMs), onLate);
  }

  /** Releases whatever an attempt has in the store, or may get; also the fire that it claimed, unless it was granted. */
  giveBack({ id, request, wasGranted, mayArrive }: GivenBack): void {
    const { keys, options } = request;
    const { leaseMs, holdAtLeastMs } = options;
    const claim = wasGranted ? undefined : request.claim;
    const releases = releasesOfAttempt({ keys, attempt: id, leaseMs, claim, unanswered: mayArrive });
    const until = this.parts.clock.now() + Math.max(leaseMs, holdAtLeastMs);
    this.#inOwnContext(() => {
      for (const release of releases) void this.parts.releaser.giveBack(release, until, commandTimeoutMs(leaseMs));
    });
  }

  /** Gives back the attempt of a call that is cancelled, unless it has left nothing in the store. */
  giveBackCancelled(attempt: Attempt, hasWaited: boolean): void {
    const { id, isUnanswered, sentAt } = attempt;
    const mayArrive = isUnanswered || (sentAt !== null && !this.parts.store.withdraw?.(id));
    // Without a place in a queue, a busy attempt leaves nothing behind.
    if (hasWaited || mayArrive) this.giveBack(attempt);
  }

  /** Gives back what a reply reports that no caller waits for any more. */
  giveBackLate(attempt: Attempt, { outcome }: AcquireReply): void {
    // A call that goes on with this attempt asks again; one that holds the lock was told of its grant before.
    if (this.#calls.has(attempt.id) || this.parts.isHeld(attempt.id)) return;
    if (outcome === 'granted' || outcome === 'busy') this.giveBack(attempt);
  }
}
