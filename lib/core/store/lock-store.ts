import { type LockMode, type LockStoreError, type NodeAnswer } from '../lock.errors.js';
import { type FireClaim, type GrantedFire } from './fires.js';

/**
 * How many fencing tokens the grant of a write lock reserves, its own and those behind it: for the callers of its process to
 * which the lock is handed without another command.
 */
export const TOKENS_OF_A_WRITER = 64;

/**
 * One command of an acquisition. The same `attempt` may be sent again at any time. After a grant, the store replies with
 * that grant again; a quorum may reply with a greater token, or give the grant back, so the last reply counts.
 */
export interface AcquireRequest {
  /** One key, or several of one group (see `groups`): all are granted or none. */
  readonly keys: readonly string[];
  /** Identifies the attempt: `<client id>.<suffix>`. By it, the store recognises a command that is sent twice. */
  readonly attempt: string;
  /** Attempts with the same owner share the lock; undefined: this attempt shares it with nobody. */
  readonly owner: string | undefined;
  readonly mode: LockMode;
  /** From 1 ms to 30 days; a store of several servers cannot grant one that is shorter than a round takes. */
  readonly leaseMs: number;
  /** How long the store keeps the place in the queue without another command of this attempt; 0: do not queue. */
  readonly waiterLeaseMs: number;
  readonly fair: boolean;
  /** The attempt does not join a queue in which so many others wait; 0 or undefined: any number may wait. */
  readonly maxWaiters?: number | undefined;
  /** With mode `read`: at most this many readers; 0: any number. */
  readonly permits: number;
  /** With mode `read`: how many permits it takes. @default 1 */
  readonly take?: number | undefined;
  /** The caller, for people to read, in one line (see `readHolderText`). It begins with `host:pid where`. */
  readonly holder: string;
  /** Only with one key and mode `write`; when a hold is restored, its mode may be `read` by now. */
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
      /** As in the other outcomes: a copy had no answer and may still arrive. A release of the attempt must say so. */
      readonly unanswered?: boolean;
    }
  | {
      readonly outcome: 'busy';
      /** When the earliest lease of the first busy key may end, in milliseconds; 0: unknown. */
      readonly retryMs: number;
      readonly ahead: number;
      readonly holder: string | undefined;
      readonly serverTimeMs: number;
      /** The holder, if it writes: the name of an owner, or an attempt. */
      readonly owner?: string | undefined;
      /** The last token that was granted: a pushed grant without a greater one is outdated. Undefined if none are pushed. */
      readonly lastToken?: number;
      /** The server that replied: only grants that it pushes count. Undefined for a single server and a cluster. */
      readonly server?: string | undefined;
      readonly unanswered?: boolean;
      /** As many others wait as the attempt accepts (`maxWaiters`), and it has not joined them. */
      readonly isFull?: boolean;
      /** How many permits an operator has set; undefined: none. */
      readonly permits?: number | undefined;
      readonly nodes?: readonly NodeAnswer[];
      /**
       * Of a quorum: the grants of some nodes were given back. The attempt keeps its places in the queues, but only a new
       * one can be granted.
       */
      readonly isSpent?: boolean;
      /**
       * Of a quorum: nobody is known to hold the lock; several attempts split the votes, and all of them may have failed.
       * Even a call that must not wait tries again after `retryMs`.
       */
      readonly isSplit?: boolean;
    }
  /** It was granted, and given back because the grant does not count; the attempt is used up. */
  | { readonly outcome: 'given-back'; readonly cause: LockStoreError }
  /**
   * `released`: the attempt was released before; `claimed`: this fire was run, or is being run; `permits`: it takes more permits than
   * an operator has set.
   */
  | {
      readonly outcome: 'refused';
      readonly reason: 'released' | 'upgrade' | 'claimed' | 'permits';
      /** How many permits an operator has set. */
      readonly permits?: number | undefined;
      /** The attempt that claimed the fire, if it has not reported the outcome of its run: it may not run it after all. */
      readonly claimedBy?: string | undefined;
      readonly unanswered?: boolean;
    };

/** Identifies one hold of one key. */
export interface HoldRef {
  readonly key: string;
  readonly attempt: string;
  readonly fencingToken: number;
}

export interface RenewRequest extends HoldRef {
  /** The lease from now on. A longer one is never shortened, so 0 leaves it as it is. */
  readonly leaseMs: number;
  /** The present mode of the hold: `read` turns a write hold into a read hold, which has the same token. */
  readonly mode: LockMode;
  /** The owner that it was acquired with, for a node of a quorum that has forgotten the hold. */
  readonly owner: string | undefined;
  readonly holder: string;
  /** Another call of the process has it than at its grant: the store keeps `holder` as its holder. */
  readonly hasNewHolder?: boolean;
  /** The fire that it was granted for, for such a node. */
  readonly fire?: GrantedFire | undefined;
  readonly timeoutMs: number;
  /** The hold in this process. Once it is over, a late answer must not restore it on such a node. */
  readonly hold?: { readonly isOver: boolean };
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
  /** The store could not be reached; the hold may be alive. */
  | { readonly outcome: 'unknown'; readonly cause: unknown };

export interface ReleaseRequest {
  readonly key: string;
  readonly attempt: string;
  /** How long the lock stays taken after its grant, in milliseconds. */
  readonly holdAtLeastMs: number;
  /** The lease of the hold, in milliseconds: once it is over, there is nothing to release. */
  readonly leaseMs: number;
  /** The job whose fire was claimed with it. */
  readonly job?: string | undefined;
  /** How the run of that fire ended; `void`: it never began, and the fire may be claimed again. */
  readonly runOutcome?: 'done' | 'failed' | 'void' | undefined;
  /** An acquire of the attempt had no answer and may still reach the store, however late; the store must refuse it then. */
  readonly unanswered?: boolean | undefined;
}

export interface ReleaseReply {
  /**
   * `again`: it was released before; `cancelled`: it was only waiting; `revoked`: an operator ended it; `unknown`: the
   * store has no trace of the attempt.
   */
  readonly outcome: 'released' | 'again' | 'cancelled' | 'expired' | 'revoked' | 'unknown';
  /** How many holds of the lock remain, of all owners; with several servers, as far as those that answered know. */
  readonly holds: number;
  readonly lastToken: number;
}

/**
 * Goes on with a hold that another process has transferred: `attempt` holds it from now on, with the same token, owner and time of
 * the grant. The hold was not granted for a fire.
 */
export interface AdoptRequest extends HoldRef {
  /** The attempt that has held it so far. */
  readonly from: string;
  /** The lease from now on; it is never shortened. */
  readonly leaseMs: number;
  /** The holder from now on, for people to read: `host:pid where`. */
  readonly holder: string;
  /** An acquire of `from` had no answer and may still reach the store, however late; the store must refuse it then. */
  readonly unanswered: boolean;
}

export type AdoptReply = { readonly outcome: 'adopted'; readonly remainingMs: number } | LostReply;

/** A message that the store sends by itself, to a waiter (`granted`, `wake`) or to a holder (`revoked`: by an operator). */
export type WakeUp =
  | {
      readonly kind: 'granted';
      readonly fencingToken: number;
      readonly remainingMs: number;
      readonly serverTimeMs: number;
      /** The server that sent it; undefined for a single server and a cluster. */
      readonly server?: string | undefined;
    }
  | { readonly kind: 'wake' }
  | { readonly kind: 'revoked' };

/** Receives wake-ups. */
export interface WakeUpListener {
  /** For one attempt of this process. */
  onWakeUp(attempt: string, wakeUp: WakeUp): void;
  /** Messages come from now on, or (of a quorum) from one more node: every waiting call should ask once. */
  onListening(): void;
  /** Messages may have been missed: every waiting call should ask once, and every hold should be renewed. */
  onMessagesMissed(): void;
}

/**
 * Where locks are kept. Every command may be repeated without harm. A command rejects with a `LockStoreError`; its
 * `retryable` says whether another try may help. What else a store may do is in capabilities.ts.
 */
export interface LockStore {
  /** Unique per store instance, and the first part of its attempt ids, by which wake-ups find their process. */
  readonly clientId: string;
  listen(listener: WakeUpListener): void;
  /** `timeoutMs` limits the command; `onLate` gets a reply that comes after that, or after a lost connection. */
  acquire(request: AcquireRequest, timeoutMs: number, onLate: (reply: AcquireReply) => void): Promise<AcquireReply>;
  /** Replies in the order of the requests; never rejects. */
  renew(requests: readonly RenewRequest[]): Promise<readonly RenewReply[]>;
  release(request: ReleaseRequest, timeoutMs: number): Promise<ReleaseReply>;
  /** Closes the connections that the store opened itself. */
  close(): Promise<void>;

  /** What sets its locks apart from those of other stores on the same server; by default nothing does. */
  readonly keyPrefix?: string;
  /** Whether each grant for writing reserves `TOKENS_OF_A_WRITER` tokens, so that its process may hand the lock on. */
  readonly reservesTokens?: boolean;
  /** Connects, unless it has connected before; the first acquire does so, too. */
  open?(): void;
  /** Checks a key before anything is sent; throws `LockKeyError`. By default a key is a well-formed text of 1 to 1,024 bytes. */
  checkKey?(key: string): void;
  /**
   * Splits keys into groups that one command can acquire together, in an order that is the same for every client. By default
   * each acquire names one key.
   */
  groups?(keys: readonly string[]): readonly (readonly string[])[];
  /** Takes back an acquire that is under way. Returns true if it was not sent, so that it leaves nothing in the store. */
  withdraw?(attempt: string): boolean;
}

/** The answer of a store. One that throws, against its contract, is like one that rejects. */
export function asked<T>(ask: () => Promise<T>): Promise<T> {
  try {
    return ask();
  } catch (error) {
    return Promise.reject(error);
  }
}
