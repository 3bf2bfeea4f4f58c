import { LockLostError, type LockLostReason } from '../lock.errors.js';
import { type Lock } from '../lock.js';

const WHY: Record<LockLostReason, string> = {
  expired: 'its lease ended before it was renewed (was the process paused, or the key deleted in Redis?)',
  taken: 'somebody else was granted it since',
  unreachable: 'Redis could not be asked until the lease was over',
  'max-hold': 'it was held for longer than maxHoldMs, or for more than a lease after its iteration was ended',
  revoked: 'an operator revoked it (`forceRelease`)',
  shutdown: 'the app shuts down, and `drainMs` was over',
  dropped: 'its handle was garbage-collected without a release',
};

/** The error that tells a holder of its loss. */
export function lostError(lock: Lock, reason: LockLostReason, cause?: unknown): LockLostError {
  const text =
    `The lock "${lock.key}" (${lock.mode}, fencing token ${lock.fencingTokens.join(', ')}) was lost: ${WHY[reason]}. ` +
    'Stop the work on `lock.signal`, and let the protected resource refuse older fencing tokens.';
  return new LockLostError(text, { key: lock.key, mode: lock.mode, reason, ...(cause === undefined ? {} : { cause }) });
}
