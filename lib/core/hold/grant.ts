import { type LockRequest } from '../acquire/request.js';
import { type LockMode } from '../lock.errors.js';
import { type GrantedFire } from '../store/fires.js';
import { type Lease, type Moment } from './lease.js';

/** A request that was granted: with the attempt, the tokens and the lease of the grant. */
export interface Grant {
  readonly request: LockRequest;
  readonly attempt: string;
  /** As the store has them: one per key, in the order of the caller. */
  readonly tokens: readonly number[];
  /** The mode of a hold that was downgraded before this process adopted it; undefined: the mode of the request. */
  readonly presentMode?: LockMode;
  /** How often calls of this process have handed it on since the store granted it; each of them had its own token. */
  readonly handedOn: number;
  /** Whether the store may have the text of another call of this process, which asked for it or has handed it on. */
  readonly hasNewHolder: boolean;
  /** The fire of a scheduled job that was claimed with it. */
  readonly fire: GrantedFire | undefined;
  readonly lease: Lease;
  /** When the granted command was sent; for a pushed grant, when it arrived. */
  readonly sent: Moment;
  /** When the grant arrived. */
  readonly receivedAt: Moment;
  readonly serverTimeMs: number;
  /** Whether a command of the attempt has no answer yet, and may still reach the store; null: all are answered, and no other follows. */
  readonly unanswered: (() => boolean) | null;
}
