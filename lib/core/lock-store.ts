import { type LockMode } from './lock.errors.js';

/** What an acquisition asks of the store; the same `attempt` may be asked for again at any time. */
export interface AcquireRequest {
  readonly key: string;
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
  readonly limit: number;
  /** Who asks, for people: `host:pid context`. */
  readonly holder: string;
}

export type AcquireReply =
  | { readonly outcome: 'granted'; readonly fencingToken: number; readonly remainingMs: number }
  | {
      readonly outcome: 'busy';
      /** When the earliest lease may end, in milliseconds; 0: unknown. */
      readonly retryMs: number;
      readonly ahead: number;
      readonly holder: string | undefined;
      /** The server's time in milliseconds, to judge a later pushed grant. */
      readonly serverTimeMs: number;
    }
  | { readonly outcome: 'refused'; readonly reason: 'released' | 'upgrade' };

/** One hold, as a renewal or a release names it. */
export interface HoldRef {
  readonly key: string;
  readonly attempt: string;
  readonly fencingToken: number;
}

export interface RenewRequest extends HoldRef {
  readonly leaseMs: number;
}

export type RenewReply =
  | { readonly outcome: 'renewed'; readonly remainingMs: number }
  | { readonly outcome: 'lost'; readonly lastToken: number }
  /** The store could not be asked; the hold may be alive. */
  | { readonly outcome: 'unknown'; readonly cause: unknown };

export interface ReleaseRequest {
  readonly key: string;
  readonly attempt: string;
  /** Keep the lock taken until this long after the grant, in milliseconds. */
  readonly minHoldMs: number;
}

export interface ReleaseReply {
  /** `again`: it was released before; `cancelled`: it was only waiting; `unknown`: no trace of the attempt. */
  readonly outcome: 'released' | 'again' | 'cancelled' | 'expired' | 'unknown';
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
  readonly context: string;
  /** When it was granted, by the store's clock. */
  readonly since: Date;
  readonly remainingMs: number;
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

/** What the store tells by itself; the waiter whose attempt it is decides what to do. */
export type WakeUp =
  | {
      readonly kind: 'granted';
      readonly fencingToken: number;
      readonly remainingMs: number;
      readonly serverTimeMs: number;
    }
  | { readonly kind: 'wake' };

/** Receives wake-ups. */
export interface WakeUpListener {
  /** For one attempt of this process. */
  onWakeUp(attempt: string, wakeUp: WakeUp): void;
  /** Messages may have been missed: everybody who waits should ask once. */
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
  /** `timeoutMs` bounds each command. */
  acquire(request: AcquireRequest, timeoutMs: number): Promise<AcquireReply>;
  renew(requests: readonly RenewRequest[], timeoutMs: number): Promise<readonly RenewReply[]>;
  release(request: ReleaseRequest, timeoutMs: number): Promise<ReleaseReply>;
  inspect(key: string): Promise<LockState>;
  list(options: { readonly prefix: string; readonly limit: number }): AsyncIterable<LockState>;
  /** Closes what the store opened itself. */
  close(): Promise<void>;
}
