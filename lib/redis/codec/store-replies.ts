import {
  type AcquireReply,
  type AcquireRequest,
  type AdoptReply,
  type LostReply,
  type ReleaseReply,
  type RenewReply,
  type RenewRequest,
} from '../../core/store/lock-store.js';
import { ReplyParts, wholeNumber } from './reply-parts.js';

type Reply = readonly string[];

/**
 * Reads the reply to an acquire.
 * @throws LockStoreError for anything else: what cannot be read is no grant
 */
export function readAcquireReply({ keys }: Pick<AcquireRequest, 'keys'>, reply: Reply): AcquireReply {
  const parts = new ReplyParts(keys.length === 1 ? keys[0]! : keys.join(', '), reply);
  const outcome = parts.oneOf(0, ['granted', 'busy', 'refused']);
  if (outcome === 'busy') return readBusyReply(parts);
  if (outcome === 'refused') {
    const reason = parts.oneOf(3, ['released', 'upgrade', 'claimed', 'permits']);
    if (reason === 'permits') return { outcome, reason, permits: parts.whole(4) };
    return { outcome, reason, claimedBy: parts.text(4) || undefined };
  }
  const [serverTimeMs, remainingMs] = [parts.whole(2), parts.lease(3)];
  if (reply.length !== 6 + keys.length) parts.refuse();
  const fencingTokens = keys.map((_key, i) => parts.token(6 + i));
  const granted = { outcome, fencingTokens, remainingMs, serverTimeMs };
  return parts.text(5) ? { ...granted, fireMs: parts.whole(5) } : granted;
}

function readBusyReply(parts: ReplyParts): AcquireReply {
  const place = { retryMs: parts.whole(3), ahead: parts.whole(4) };
  const [holder, owner] = [parts.text(5) || undefined, parts.text(6) || undefined];
  const isFull = parts.oneOf(9, ['', '1']) === '1';
  const permits = parts.text(10) ? parts.whole(10) : undefined;
  const state = { serverTimeMs: parts.whole(2), lastToken: parts.whole(8), isFull, permits };
  return { outcome: 'busy', ...place, holder, owner, ...state };
}

/** Whether an acquire was refused as late: it was sent too long ago, or at an unknown time. */
export const isTooLate = ([outcome, , , reason]: Reply): boolean => outcome === 'refused' && reason === 'late';

/** The time of the server in the reply to an acquire, in microseconds. */
export const serverMicrosIn = (reply: Reply): number =>
  isTooLate(reply) ? wholeNumber(reply[4]) : wholeNumber(reply[2]) * 1_000;

/** Whether the server knows a subscriber of ours, in the `busy` reply to an acquire. */
export const isListenedTo = (reply: Reply): boolean => reply[7] !== '0';

/** Reads the reply of the renew script. @throws LockStoreError for anything else */
export function readRenewReply({ key }: Pick<RenewRequest, 'key'>, reply: Reply): RenewReply {
  const parts = new ReplyParts(key, reply);
  const outcome = parts.oneOf(0, ['renewed', 'lost']);
  if (outcome === 'lost') return readLostReply(parts);
  return { outcome, remainingMs: parts.lease(3) };
}

/** Reads the reply to a renewal that makes a hold a read hold. @throws LockStoreError for anything else */
export function readDowngradeReply(key: string, reply: Reply): { readonly outcome: 'downgraded' } | LostReply {
  const renewal = readRenewReply({ key }, reply);
  return renewal.outcome === 'lost' ? renewal : { outcome: 'downgraded' };
}

/** Reads the reply of the adopt script. @throws LockStoreError for anything else */
export function readAdoptReply(key: string, reply: Reply): AdoptReply {
  const parts = new ReplyParts(key, reply);
  const outcome = parts.oneOf(0, ['adopted', 'lost']);
  if (outcome === 'lost') return readLostReply(parts);
  // The time of the server is not needed; a reply without it is not that of the script.
  parts.whole(2);
  return { outcome, remainingMs: parts.lease(3) };
}

/** Reads the reply `lost attempt now token revoked`. */
const readLostReply = (parts: ReplyParts): LostReply => ({
  outcome: 'lost',
  lastToken: parts.whole(3),
  revoked: parts.oneOf(4, ['0', '1']) === '1',
});

/** Whether the write-back script has replaced the token; false: the hold is lost. @throws LockStoreError for anything else */
export const readWriteBackReply = (key: string, reply: Reply): boolean =>
  new ReplyParts(key, reply).oneOf(0, ['written', 'lost']) === 'written';

/** Whether the force-release script has ended a hold, now or before. @throws LockStoreError for anything else */
export function readForceReleaseReply(key: string, reply: Reply): boolean {
  const parts = new ReplyParts(key, reply);
  return parts.oneOf(0, ['revoked', 'again']) === 'again' || parts.whole(3) > 0;
}

/** Checks the reply of the set-permits script. @throws LockStoreError for anything else */
export function checkSetPermitsReply(key: string, reply: Reply): void {
  new ReplyParts(key, reply).oneOf(0, ['set']);
}

const RELEASE_OUTCOMES = ['released', 'again', 'cancelled', 'expired', 'revoked', 'unknown'] as const;

/**
 * Reads the reply of the release script. `maybeResent`: the connection was lost meanwhile, and the first of two copies may
 * have ended the hold; then a missing trace does not prove that the hold was lost before.
 * @throws LockStoreError for anything else
 */
export function readReleaseReply(key: string, reply: Reply, maybeResent: boolean): ReleaseReply {
  const parts = new ReplyParts(key, reply);
  const outcome = parts.oneOf(0, RELEASE_OUTCOMES);
  const mayBeOurs = maybeResent && (outcome === 'unknown' || outcome === 'expired');
  return { outcome: mayBeOurs ? 'again' : outcome, holds: parts.whole(3), lastToken: parts.whole(4) };
}
