import { type LockMode, type LockStoreError, type NodeAnswer } from '../lock.errors.js';
import { type FireClaim, type GrantedFire } from './fires.js';

/**
 * The number of fencing tokens that the grant of a write lock reserves: its own token, and those for the callers of its process to
 * which the lock is handed without another command.
 */
export const TOKENS_OF_A_WRITER = 64;

/**
 * One command of an acquisition. The same `attempt` may be sent again at any time. After a grant, the store replies with
 * the same grant again; a quorum may reply with a greater token, or give the grant back, so the last reply counts.
 */
export interface AcquireRequest {
  /** One key, or several of one group (see `groups`): all are granted or none. */
  readonly keys: readonly string[];
  /** Identifies the attempt: `<client id>.<suffix>`. By this id, the store recognises a command that is sent twice. */
  readonly attempt: string;
  /** Attempts with the same owner share the lock; undefined: this attempt does not share it. */
  readonly owner: string | undefined;
  readonly mode: LockMode;
  /** From 1 ms to 30 days; a store of several servers cannot grant a lease shorter than one round. */
  readonly leaseMs: number;
  /** How long the store keeps the place in the queue without another command of this attempt; 0: do not queue. */
  readonly waiterLeaseMs: number;
  readonly fair: boolean;
  /** The attempt does not join a queue of this length; 0 or undefined: no limit. */
  readonly maxWaiters?: number | undefined;
  /** With mode `read`: the maximum number of readers; 0: no limit. */
  readonly permits: number;
  /** With mode `read`: the number of permits that it takes. @default 1 */
  readonly take?: number | undefined;
  /** The caller as a text of one line (see `readHolderText`). It begins with `host:pid where`. */
  readonly holder: string;
  /** Only with one key and mode `write`; when a hold is restored, its mode may be `read` by now. */
  readonly claim?: FireClaim | undefined;
}

export type AcquireReply =
  | {
      readonly outcome: 'granted';
      /** One per key, in the order of the keys. */
      readonly fencingTokens: readonly number[];
      /** The shortest rest of all keys. */
      readonly remainingMs: number;
      readonly serverTimeMs: number;
      /** The fire that was claimed, in milliseconds since the epoch. */
      readonly fireMs?: number;
      /** A copy of the command had no answer and may still arrive. A release of the attempt must report this. */
      readonly unanswered?: boolean;
    }
  | {
      readonly outcome: 'busy';
      /** When the earliest lease of the first busy key may end, or to ask again, in milliseconds; 0: unknown. */
      readonly retryMs: number;
      readonly ahead: number;
      readonly holder: string | undefined;
      readonly serverTimeMs: number;
      /** The holder, if it writes: the name of an owner, or an attempt. */
      readonly owner?: string | undefined;
      /** The last token that was granted: a pushed grant without a greater token is outdated. Undefined if the store pushes no grants. */
      readonly lastToken?: number;
      /** The server that replied: only grants pushed by it count. Undefined for a single server and a cluster. */
      readonly server?: string | undefined;
      readonly unanswered?: boolean;
      /** The queue has reached the `maxWaiters` of the attempt, which has not joined it. */
      readonly isFull?: boolean;
      /** The number of permits that an operator has set; undefined: not set. */
      readonly permits?: number | undefined;
      readonly nodes?: readonly NodeAnswer[];
      /**
       * Of a quorum: the grants of some nodes were given back. The attempt keeps its places in the queues, but only a new
       * attempt can be granted.
       */
      readonly isSpent?: boolean;
      /**
       * Of a quorum: no holder of the lock is known; several attempts split the votes, and all of them may have failed.
       * Even a call that must not wait tries again after `retryMs`.
       */
      readonly isSplit?: boolean;
    }
  /**
   * The attempt was granted, but the grant was invalid and was given back; the attempt is used up. `unanswered`: the release had no
   * answer, and has to be repeated.
   */
  | { readonly outcome: 'given-back'; readonly cause: LockStoreError; readonly unanswered?: boolean }
  /**
   * `released`: the attempt was released before; `claimed`: this fire was run, or is being run; `permits`: it takes more permits than
   * an operator has set.
   */
  | {
      readonly outcome: 'refused';
      readonly reason: 'released' | 'upgrade' | 'claimed' | 'permits';
      /** The number of permits that an operator has set. */
      readonly permits?: number | undefined;
      /** The attempt that claimed the fire, if the outcome of its run is missing: it may never run the fire. */
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
  /** The lease from now on. A longer lease is never shortened, so 0 changes nothing. */
  readonly leaseMs: number;
  /** The present mode of the hold: `read` turns a write hold into a read hold, with the same token. */
  readonly mode: LockMode;
  /** The owner of the acquisition, for a node of a quorum that has forgotten the hold. */
  readonly owner: string | undefined;
  readonly holder: string;
  /** Since the grant, another call of the process has got it: the store stores `holder` as its holder. */
  readonly hasNewHolder?: boolean;
  /** The fire for which it was granted, for such a node. */
  readonly fire?: GrantedFire | undefined;
  readonly timeoutMs: number;
  /** The hold in this process. After its end, a late answer must not restore it on such a node. */
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
  /** The minimum time for which the lock stays taken after its grant, in milliseconds. */
  readonly holdAtLeastMs: number;
  /** The lease of the hold, in milliseconds: after its end, there is nothing to release. */
  readonly leaseMs: number;
  /** The job whose fire was claimed with the hold. */
  readonly job?: string | undefined;
  /** How the run of that fire ended; `void`: the run never began, so the fire may be claimed again. */
  readonly runOutcome?: 'done' | 'failed' | 'void' | undefined;
  /** An acquire of the attempt had no answer and may still reach the store, however late; the store must refuse it then. */
  readonly unanswered?: boolean | undefined;
  /** An earlier copy of this release had no answer, and may have been executed. */
  readonly isRepeated?: boolean | undefined;
}

export interface ReleaseReply {
  /**
   * `again`: it was released before; `cancelled`: it was only waiting; `revoked`: an operator ended it; `unknown`: the
   * store has no trace of the attempt; `lost`: it had none when the first release of the attempt arrived.
   */
  readonly outcome: 'released' | 'again' | 'cancelled' | 'expired' | 'revoked' | 'lost' | 'unknown';
  /** The number of remaining holds of the lock, of all owners; with several servers, according to those that answered. */
  readonly holds: number;
  readonly lastToken: number;
}

/**
 * Continues a hold that another process has transferred: `attempt` holds it from now on, with the same token, owner and time of
 * the grant. The hold was not granted for a fire.
 */
export interface AdoptRequest extends HoldRef {
  /** The attempt that held it so far. */
  readonly from: string;
  /** The lease from now on; it is never shortened. */
  readonly leaseMs: number;
  /** The holder from now on, as text: `host:pid where`. */
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
  /** The store delivers messages from now on, or a quorum those of one more node: every waiting call should ask once. */
  onListening(): void;
  /** Messages may have been missed: every waiting call should ask once, and every hold should be renewed. */
  onMessagesMissed(): void;
}

/**
 * Where locks are kept. Every command may be repeated without harm. A command rejects with a `LockStoreError`, whose
 * `retryable` shows whether a retry may help. Further capabilities are in capabilities.ts.
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

  /** Distinguishes its locks from those of other stores on the same server; by default, there is no prefix. */
  readonly keyPrefix?: string;
  /** Whether each grant for writing reserves `TOKENS_OF_A_WRITER` tokens, so that its process may hand the lock on. */
  readonly reservesTokens?: boolean;
  /** Connects, unless it is connected; the first acquire also connects. */
  open?(): void;
  /** Checks a key before anything is sent; throws `LockKeyError`. By default a key is a well-formed text of 1 to 1,024 bytes. */
  checkKey?(key: string): void;
  /**
   * Splits keys into groups that one command can acquire together, in an order that is the same for every client. By default
   * each acquire names one key.
   */
  groups?(keys: readonly string[]): readonly (readonly string[])[];
  /** Takes back an acquire that is under way. Returns true if it was not sent, so it leaves nothing in the store. */
  withdraw?(attempt: string): boolean;
}
