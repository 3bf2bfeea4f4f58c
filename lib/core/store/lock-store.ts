import { type LockMode, type LockStoreError, type NodeAnswer } from '../lock.errors.js';

/**
 * Which fire of a scheduled job an acquisition is for: it is granted once per fire.
 * `at`: the fire of this time, in milliseconds since the epoch; `slot`: the slot of this width in which the store's clock
 * was when the method was called; `gap`: any time that is at least this far from the last fire.
 */
export interface FireClaim {
  /** Whose fire it is, such as `Reports.noon`: each job has fires of its own. Of 1 to 128 characters, well-formed. */
  readonly job: string;
  readonly kind: 'at' | 'slot' | 'gap';
  readonly ms: number;
  /** When the method was called, on the monotonic clock: it may have waited since, for its turn or to spread the claims. */
  readonly calledAt: number;
  /** For how long the store remembers the fire, in milliseconds. */
  readonly rememberMs: number;
  /** Whether a fire whose run ended without an outcome may be granted again. */
  readonly rerunOnLoss: boolean;
}

/**
 * What an acquisition asks of the store; the same `attempt` may be asked for again at any time. After its grant it gives that
 * grant again; a quorum may give a greater token, or give the grant back, so the answer that came last counts.
 */
export interface AcquireRequest {
  /** One key, or several of one group (see `groups`): all are granted or none. */
  readonly keys: readonly string[];
  /** Identifies this acquisition: `<client id>.<counter>`; commands that are sent twice are recognised by it. */
  readonly attempt: string;
  /** Who re-enters; undefined: nobody but this attempt. */
  readonly owner: string | undefined;
  readonly mode: LockMode;
  readonly leaseMs: number;
  /** How long the store keeps the place in the queue without hearing of this attempt again; 0: do not queue. */
  readonly waiterLeaseMs: number;
  readonly fair: boolean;
  /** With mode `read`: at most this many readers; 0: any number. */
  readonly permits: number;
  /** Who asks, for people: `host:pid where`. */
  readonly holder: string;
  /** Only with one key and mode `write`. */
  readonly claim?: FireClaim | undefined;
}

export type AcquireReply =
  | {
      readonly outcome: 'granted';
      /** One per key, in the order of the keys. */
      readonly fencingTokens: readonly number[];
      /** The shortest of all keys. */
      readonly remainingMs: number;
      readonly serverTimeMs: number;
      /** The fire that was claimed, in milliseconds since the epoch. */
      readonly fireMs?: number;
      /** A copy of the command had no answer and may still reach the store: what gives the attempt back says so. */
      readonly unanswered?: boolean;
    }
  | {
      readonly outcome: 'busy';
      /** When the earliest lease of the first busy key may end, in milliseconds; 0: unknown. */
      readonly retryMs: number;
      readonly ahead: number;
      readonly holder: string | undefined;
      readonly serverTimeMs: number;
      /** Who holds it for writing: the name of an owner, or an attempt. */
      readonly owner?: string | undefined;
      /** The last token that was granted: a pushed grant of that or an earlier one is over. Undefined where none are pushed. */
      readonly lastToken?: number;
      /** Which server says so: only its own pushed grants count. Undefined where only one is asked, and of a cluster. */
      readonly server?: string | undefined;
      /** As of a grant. */
      readonly unanswered?: boolean;
      readonly nodes?: readonly NodeAnswer[];
      /**
       * Of a quorum: what some nodes granted, or may have granted, was given back, so that the attempt only waits; a new one
       * has to ask.
       */
      readonly isSpent?: boolean;
      /**
       * Of a quorum: nobody is known to hold it; several split the votes. Even who is not to wait asks again, in `retryMs`:
       * all who split them may have failed.
       */
      readonly isSplit?: boolean;
    }
  /** It was granted, and given back since it did not count; the attempt is used up. */
  | { readonly outcome: 'given-back'; readonly cause: LockStoreError }
  /** `claimed`: this fire was run, or is being run, by somebody. */
  | {
      readonly outcome: 'refused';
      readonly reason: 'released' | 'upgrade' | 'claimed';
      /** The attempt that claimed the fire and has not told how its run ended: it may not run it after all. */
      readonly claimedBy?: string | undefined;
    };

/** One hold, as a renewal or a release names it. */
export interface HoldRef {
  readonly key: string;
  readonly attempt: string;
  readonly fencingToken: number;
}

export interface RenewRequest extends HoldRef {
  readonly leaseMs: number;
  /** How it is held by now: `read` makes a write hold a read hold, should a server not know of its downgrade. */
  readonly mode: LockMode;
  /** What it was acquired with, for a node of a quorum that has forgotten it. */
  readonly owner: string | undefined;
  readonly holder: string;
  readonly timeoutMs: number;
}

/** The hold is gone; `revoked`: an operator ended it. */
export interface LostReply {
  readonly outcome: 'lost';
  readonly lastToken: number;
  readonly revoked: boolean;
}

export type RenewReply =
  | { readonly outcome: 'renewed'; readonly remainingMs: number }
  | LostReply
  /** The store could not be asked; the hold may be alive. */
  | { readonly outcome: 'unknown'; readonly cause: unknown };

export interface ReleaseRequest {
  readonly key: string;
  readonly attempt: string;
  /** Keep the lock taken until this long after the grant, in milliseconds. */
  readonly holdAtLeastMs: number;
  /** For which it was granted, in milliseconds: afterwards there is nothing to release. */
  readonly leaseMs: number;
  /** Whose fire was claimed with it. */
  readonly job?: string | undefined;
  /** How the run of that fire ended; `void`: it never began, and the fire may be claimed again. */
  readonly runOutcome?: 'done' | 'failed' | 'void' | undefined;
  /** An acquire of the attempt had no answer and may still reach the store, however late: it is to be refused then. */
  readonly unanswered?: boolean | undefined;
}

export interface ReleaseReply {
  /**
   * `again`: it was released before; `cancelled`: it was only waiting; `revoked`: an operator ended it; `unknown`: no
   * trace of the attempt.
   */
  readonly outcome: 'released' | 'again' | 'cancelled' | 'expired' | 'revoked' | 'unknown';
  /** How many holds of the lock remain, of any owner; of several servers, as far as those that answered can tell. */
  readonly holds: number;
  readonly lastToken: number;
}

/** One holder of a lock, as `inspect` tells it. */
export interface LockHolder {
  readonly owner: string;
  readonly attempt: string;
  readonly mode: LockMode;
  readonly host: string;
  readonly pid: number;
  /** The class and method that hold it, where a decorator acquired it. */
  readonly where: string;
  /** When it was granted, by the store's clock. */
  readonly since: Date;
  readonly remainingMs: number;
  /** 0: its holder has given it back, and it stays taken until its `holdAtLeastMs` is over. */
  readonly fencingToken: number;
}

/** The state of one lock at one moment. */
export interface LockState {
  readonly key: string;
  /** `free`, or how it is held. */
  readonly mode: LockMode | 'free';
  readonly holders: readonly LockHolder[];
  /** How many wait in the queue. */
  readonly waiters: number;
  /** The last fencing token that was granted; 0 when none is remembered. */
  readonly fencingToken: number;
}

/** The last run of a job that is claimed once per fire. */
export interface LastRun {
  /** The method that was locked, with the class of its instance: `Class.method`. */
  readonly job: string;
  /** The nominal time of the fire, or the begin of its slot. */
  readonly fire: Date;
  /** Who ran it: `host:pid`. */
  readonly instance: string;
  /** The acquisition that ran it. */
  readonly attempt: string;
  /** By the store's clock. */
  readonly started: Date;
  readonly ended: Date | null;
  /** `lost`: it began, and its lock ended without word of its end. */
  readonly outcome: 'running' | 'done' | 'failed' | 'lost';
}

/** What the store tells by itself, about a waiter (`granted`, `wake`) or a holder (`revoked`: by an operator). */
export type WakeUp =
  | {
      readonly kind: 'granted';
      readonly fencingToken: number;
      readonly remainingMs: number;
      readonly serverTimeMs: number;
      /** Which server says so; undefined where there is only one to ask, and of a cluster. */
      readonly server?: string | undefined;
    }
  | { readonly kind: 'wake' }
  | { readonly kind: 'revoked' };

/** Receives wake-ups. */
export interface WakeUpListener {
  /** For one attempt of this process. */
  onWakeUp(attempt: string, wakeUp: WakeUp): void;
  /** Messages come from now on, or (of a quorum) from one more node: everybody who waits should ask once. */
  onListening(): void;
  /** Messages may have been missed: everybody who waits should ask once, and every holder renew. */
  onGap(): void;
}

/**
 * Where locks live. Every command may be repeated without harm. A rejection is a `LockStoreError` whose `retryable`
 * tells whether asking again may help.
 */
export interface LockStore {
  /** Unique per store instance; the first part of its attempt ids, by which wake-ups find their process. */
  readonly clientId: string;
  /** Checks a key before anything is sent; throws `LockKeyError`. */
  checkKey(key: string): void;
  listen(listener: WakeUpListener): void;
  /** Connects, if that did not happen yet; the first acquire does it, too. */
  open(): void;
  /** Splits keys into groups that one acquire may name together; a total order, the same for everybody. */
  groups(keys: readonly string[]): readonly (readonly string[])[];
  /** `timeoutMs` bounds the command; `onLate` hears a reply that came after it, or after a lost connection. */
  acquire(request: AcquireRequest, timeoutMs: number, onLate: (reply: AcquireReply) => void): Promise<AcquireReply>;
  /** Takes back an acquire that is under way; true when it was not sent, and so nothing of it is left in the store. */
  withdraw?(attempt: string): boolean;
  /** Replies in the order of the requests; never rejects. */
  renew(requests: readonly RenewRequest[]): Promise<readonly RenewReply[]>;
  release(request: ReleaseRequest, timeoutMs: number): Promise<ReleaseReply>;
  /** Turns a write hold into a read hold that lasts as long; again, when it is one already. */
  downgrade(hold: HoldRef, timeoutMs: number): Promise<{ readonly outcome: 'downgraded' } | LostReply>;
  /** Takes the lock from all holders, who are told; false when there were none. Those who wait go on waiting. */
  forceRelease(key: string): Promise<boolean>;
  inspect(key: string): Promise<LockState>;
  /** The last run of this job; without one, the run of any job of this key that began last. */
  lastRun(key: string, job?: string): Promise<LastRun | null>;
  list(options: { readonly prefix: string; readonly limit: number }): AsyncIterable<LockState>;
  /** Closes what the store opened itself. */
  close(): Promise<void>;
}
