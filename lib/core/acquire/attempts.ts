import { AsyncLocalStorage } from 'node:async_hooks';
import { type Clock } from '../clock.js';
import { FreshMap } from '../fresh-map.js';
import { type Moment } from '../hold/lease.js';
import { type Releaser } from '../hold/releaser.js';
import { releasesOfAttempt } from '../store/attempt-ids.js';
import { type AcquireReply, type LockStore, type WakeUp } from '../store/lock-store.js';
import { commandTimeoutMs } from '../timing.js';
import { acquireRequestOf, type LockRequest, requestedLeaseMs } from './request.js';

/**
 * One attempt of an acquisition: its id in the store, and what is known of its commands. An acquisition has one attempt at a
 * time, sends one command of it at a time, and takes a new attempt when the store has used up the last one.
 */
export class Attempt {
  /** When the command under way was sent; null if there is none. */
  sentAt: number | null = null;
  /** A wake-up came while an answer was awaited, so the answer may be out of date. */
  isWoken = false;
  /** One of its commands had no answer and may still be carried out, however late. */
  isUnanswered = false;
  /** An operator revoked what it was granted. The message may come before the reply that grants it. */
  isRevoked = false;
  /** A quorum gave some of its grants back: it keeps its places in the queues, but can no longer be granted. */
  isSpent = false;
  wasGranted = false;

  constructor(
    readonly id: string,
    /** Of the call that it is for now. */
    public request: LockRequest,
  ) {}

  /** Whether one of its commands is under way, or may still reach the store. */
  get mayArrive(): boolean {
    return this.isUnanswered || this.sentAt !== null;
  }

  /** The command was answered, or it failed; `mayArrive`: it, or a copy of it, may still be carried out. */
  onAnswer(mayArrive: boolean): void {
    this.sentAt = null;
    this.isUnanswered ||= mayArrive;
  }
}

/** An acquisition that has not ended yet. */
export interface WokenAcquisition {
  onWakeUp(wakeUp: WakeUp): void;
  /** Ends its call, and all that stand behind it. */
  close(error: unknown): void;
}

/** The collaborators of `Attempts`. */
export interface AttemptsParts {
  readonly clock: Clock;
  readonly store: LockStore;
  readonly releaser: Pick<Releaser, 'giveBack'>;
  /** Returns the id of a new attempt. */
  readonly nextId: () => string;
  /** Whether the lock that was granted to an attempt is held. */
  readonly isHeld: (id: string) => boolean;
}

/** Makes, sends and gives back the attempts of a module, and knows the acquisition of each. */
export class Attempts {
  readonly #acquisitions = new FreshMap<string, WokenAcquisition>();
  /** A release that gives an attempt back is no part of the call that made the attempt. */
  readonly #inOwnContext = AsyncLocalStorage.snapshot();

  constructor(private readonly parts: AttemptsParts) {}

  /** How many acquisitions there are. */
  get size(): number {
    return this.#acquisitions.size;
  }

  get acquisitions(): Iterable<WokenAcquisition> {
    return this.#acquisitions.values();
  }

  /** The acquisition whose present attempt this is; undefined if it has ended or uses another attempt. */
  acquisitionOf(id: string): WokenAcquisition | undefined {
    return this.#acquisitions.get(id);
  }

  /** Makes a new attempt of this acquisition. */
  begin(acquisition: WokenAcquisition, request: LockRequest): Attempt {
    const attempt = new Attempt(this.parts.nextId(), request);
    this.#acquisitions.set(attempt.id, acquisition);
    return attempt;
  }

  /** Forgets an attempt: its acquisition has ended, or goes on with another one. */
  end({ id }: Attempt): void {
    this.#acquisitions.delete(id);
  }

  /** Makes the next attempt of an acquisition when the store has used up this one. */
  replace(attempt: Attempt, acquisition: WokenAcquisition): Attempt {
    // A spent attempt has stayed in the queues to be woken. It must leave them before the new one asks.
    if (attempt.isSpent) this.giveBack(attempt);
    this.end(attempt);
    return this.begin(acquisition, attempt.request);
  }

  /** Like `replace`, for an attempt that was released, by us or by an operator. */
  replaceReleased(attempt: Attempt, acquisition: WokenAcquisition): Attempt {
    // An operator may have revoked only one of several keys, or nodes: holds of the others would block the new attempt.
    if (attempt.request.keys.length > 1 || attempt.isRevoked) this.giveBack(attempt);
    return this.replace(attempt, acquisition);
  }

  /** Sends a command of this attempt. A reply that comes after a rejection is given back. */
  send(attempt: Attempt, sent: Moment, hasWaited: boolean): Promise<AcquireReply> {
    attempt.sentAt = sent.at;
    attempt.isWoken = false;
    const { id, request } = attempt;
    const onLate = (reply: AcquireReply): void => this.giveBackLate(attempt, reply);
    try {
      const timeoutMs = commandTimeoutMs(request.options.leaseMs);
      return this.parts.store.acquire(acquireRequestOf(request, id, hasWaited), timeoutMs, onLate);
    } catch (error) {
      // A store that throws, against its contract, is like one that rejects.
      return Promise.reject(error);
    }
  }

  /** Releases all that an attempt has, or may still get, in the store. Unless it was granted, its fire may be claimed again. */
  giveBack({ id, request, wasGranted, mayArrive }: Attempt): void {
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

  /** Gives back the attempt of a reply that no acquisition waits for any more. */
  giveBackLate(attempt: Attempt, { outcome }: AcquireReply): void {
    // An acquisition that goes on with this attempt asks again; a call that holds the lock has had its grant.
    if (this.#acquisitions.has(attempt.id) || this.parts.isHeld(attempt.id)) return;
    if (outcome === 'granted' || outcome === 'busy') this.giveBack(attempt);
  }
}
