import { LockKeyError } from '../../core/lock.errors.js';
import { type AcquireReply, type LostReply } from '../../core/store/lock-store.js';

type Refusal = Extract<AcquireReply, { outcome: 'refused' }>['reason'];

/** Reads the reply of the acquire script, or of acquire-many for `several` keys. */
export function readAcquireReply(key: string, several: boolean, reply: readonly string[]): AcquireReply {
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

/** Reads the reply `lost attempt now token revoked`. */
export const readLostReply = ([, , , lastToken, revoked]: readonly string[]): LostReply => ({
  outcome: 'lost',
  lastToken: Number(lastToken),
  revoked: revoked === '1',
});

function safeToken(key: string, text: string): number {
  const token = Number(text);
  if (Number.isSafeInteger(token)) return token;
  throw new LockKeyError(`The fencing token of the lock "${key}" is no safe integer: ${text}.`, { key });
}
