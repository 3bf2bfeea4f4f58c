import { type Grant } from '../hold/hold-terms.js';
import { type Moment } from '../hold/lease.js';
import { grantOf, type LockRequest } from './request.js';

/** The part of a grant that comes from the reply of the store. */
export interface StoreGrant extends Pick<Grant, 'lease' | 'sent' | 'serverTimeMs'> {
  readonly fireMs?: number | undefined;
}

/**
 * One attempt of a call: its id in the store, and what is known of its commands. A call has one attempt at a time, sends one
 * command of it at a time, and takes a new attempt when the store has used up the last one.
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

  onSent(at: number): void {
    this.sentAt = at;
    this.isWoken = false;
  }

  /** The command was answered, or it failed; `mayArrive`: it, or a copy of it, may still be carried out. */
  onAnswer(mayArrive: boolean): void {
    this.sentAt = null;
    this.isUnanswered ||= mayArrive;
  }

  /** Marks it as granted and returns the grant. `tokens` are in the order of the keys. */
  onGrant(tokens: readonly number[], { lease, sent, serverTimeMs, fireMs }: StoreGrant, receivedAt: Moment): Grant {
    this.wasGranted = true;
    const { id: attempt, request } = this;
    const { keys, claim } = request;
    const holds = keys.map((key, i) => ({ key, attempt, fencingToken: tokens[i]! }));
    const fire = claim && { job: claim.job, ms: fireMs, rememberMs: claim.rememberMs };
    const unanswered = (): boolean => this.mayArrive;
    return grantOf(request, { holds, attempt, handedOn: 0, fire, lease, sent, receivedAt, serverTimeMs, unanswered });
  }
}
