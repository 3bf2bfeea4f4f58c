import { type LockMode } from '../lock.errors.js';
import { type LockLabel } from '../lock.events.js';
import { type GrantedFire } from '../store/fires.js';
import { type HoldRef } from '../store/lock-store.js';
import { type Lease, type Moment } from './lease.js';

/** On what terms a hold was granted: what the caller asked for, and who the caller is. Many holds have the same. */
export interface HoldTerms {
  readonly mode: LockMode;
  /** The name that the caller gave its owner; undefined: the attempt is the owner. */
  readonly owner: string | undefined;
  /** The holder, for people to read. */
  readonly holder: string;
  readonly leaseMs: number;
  readonly renew: boolean;
  readonly maxHoldMs: number;
  readonly holdAtLeastMs: number;
  /** Whether the call whose work it is waits for the release. */
  readonly awaitRelease: boolean;
  /** Of a semaphore; 0: any number of readers. */
  readonly permits: number;
  /** How many of them it takes. */
  readonly take: number;
  /** The fire of a scheduled job that was claimed with it. */
  readonly fire: GrantedFire | undefined;
  readonly label: LockLabel;
}

/** The grant of the store, with the options that were requested. */
export interface Grant extends HoldTerms {
  /** One per key, in the order in which the caller named them. */
  readonly holds: readonly HoldRef[];
  readonly attempt: string;
  /** Of a hold that was downgraded before this process adopted it; undefined: the mode of the terms. */
  readonly presentMode?: LockMode;
  /** How many calls of this process have handed it on since the store granted it; each of them had a token of its own. */
  readonly handedOn: number;
  readonly lease: Lease;
  /** When the granted command was sent; when the grant arrived, if it was pushed. */
  readonly sent: Moment;
  /** When the grant arrived. */
  readonly receivedAt: Moment;
  readonly waitedMs: number;
  readonly serverTimeMs: number;
  /** Whether a command of the attempt has had no answer so far, and may still arrive. */
  readonly unanswered: () => boolean;
}

/** Makes the terms of grants: one object for grants in a row that have the same. */
export class SharedTerms {
  #last: HoldTerms | null = null;

  of(grant: HoldTerms): HoldTerms {
    if (!this.#last || !areEqual(this.#last, grant)) this.#last = copyOf(grant);
    return this.#last;
  }
}

/** Only the terms: what is copied may be a whole grant. */
function copyOf(terms: HoldTerms): HoldTerms {
  const { mode, owner, holder, leaseMs, renew, maxHoldMs, holdAtLeastMs, awaitRelease, permits, take, fire, label } =
    terms;
  return { mode, owner, holder, leaseMs, renew, maxHoldMs, holdAtLeastMs, awaitRelease, permits, take, fire, label };
}

const areEqual = (a: HoldTerms, b: HoldTerms): boolean =>
  a.mode === b.mode &&
  a.owner === b.owner &&
  a.holder === b.holder &&
  a.leaseMs === b.leaseMs &&
  a.renew === b.renew &&
  a.maxHoldMs === b.maxHoldMs &&
  a.holdAtLeastMs === b.holdAtLeastMs &&
  a.awaitRelease === b.awaitRelease &&
  a.permits === b.permits &&
  a.take === b.take &&
  a.fire === b.fire &&
  a.label === b.label;
