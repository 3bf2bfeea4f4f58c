import { LockKeyError } from '../../core/lock.errors.js';
import { type AcquireReply, type LostReply, type ReleaseReply, type RenewReply } from '../../core/store/lock-store.js';

type Reply = readonly string[];
type Refusal = Extract<AcquireReply, { outcome: 'refused' }>['reason'];

/** Reads the reply of the acquire script, or of acquire-many for `several` keys. */
export function readAcquireReply(key: string, several: boolean, reply: Reply): AcquireReply {
  const [outcome, , now, first = '', second, third, fourth, , , lastToken] = reply;
  const serverTimeMs = Number(now);
  if (outcome === 'refused') return { outcome, reason: first as Refusal, claimedBy: second || undefined };
  if (outcome === 'busy') {
    const [holder, owner] = [third || undefined, fourth || undefined];
    const place = { retryMs: Number(first), ahead: Number(second) };
    return { outcome, ...place, holder, owner, serverTimeMs, lastToken: Number(lastToken) };
  }
  if (several) {
    const fencingTokens = reply.slice(4).map((token) => safeToken(key, token));
    return { outcome: 'granted', fencingTokens, remainingMs: Number(first), serverTimeMs };
  }
  const granted = { fencingTokens: [safeToken(key, first)], remainingMs: Number(second), serverTimeMs };
  return fourth ? { outcome: 'granted', ...granted, fireMs: Number(fourth) } : { outcome: 'granted', ...granted };
}

function safeToken(key: string, text: string): number {
  const token = Number(text);
  if (Number.isSafeInteger(token)) return token;
  throw new LockKeyError(`The fencing token of the lock "${key}" is not a safe integer: ${text}.`, { key });
}

/** Whether an acquire was refused as late: it was sent too long ago, or at an unknown time. */
export const isTooLate = ([outcome, , , reason]: Reply): boolean => outcome === 'refused' && reason === 'late';

/** The time of the server in the reply to an acquire, in microseconds. */
export const serverMicrosIn = (reply: Reply): number =>
  isTooLate(reply) ? Number(reply[4]) : Number(reply[2]) * 1_000;

/** Whether the server knows a subscriber of ours, in the `busy` reply to an acquire. */
export const isListenedTo = (reply: Reply): boolean => reply[7] !== '0';

/** Whether an acquire stopped early, because very many waiters in the queue are dead, and must be sent again. */
export const isUnservedAcquire = (reply: Reply): boolean => reply[0] === 'busy' && reply[8] === '1';

/** The same for a release. */
export const isUnservedRelease = (reply: Reply): boolean => reply[5] === '1';

/** Reads the reply of the renew script. */
export const readRenewReply = (reply: Reply): RenewReply =>
  reply[0] === 'renewed' ? { outcome: 'renewed', remainingMs: Number(reply[3]) } : readLostReply(reply);

/** Reads the reply of the downgrade script. */
export const readDowngradeReply = (reply: Reply): { readonly outcome: 'downgraded' } | LostReply =>
  reply[0] === 'downgraded' ? { outcome: 'downgraded' } : readLostReply(reply);

/** Reads the reply `lost attempt now token revoked`. */
export const readLostReply = ([, , , lastToken, revoked]: Reply): LostReply => ({
  outcome: 'lost',
  lastToken: Number(lastToken),
  revoked: revoked === '1',
});

/**
 * Reads the reply of the release script. `maybeResent`: the connection was lost meanwhile, and the first of two copies may
 * have ended the hold; then a missing trace does not prove that the hold was lost before.
 */
export function readReleaseReply(reply: Reply, maybeResent: boolean): ReleaseReply {
  const outcome = reply[0] as ReleaseReply['outcome'];
  const mayBeOurs = maybeResent && (outcome === 'unknown' || outcome === 'expired');
  return { outcome: mayBeOurs ? 'again' : outcome, holds: Number(reply[3]), lastToken: Number(reply[4]) };
}
