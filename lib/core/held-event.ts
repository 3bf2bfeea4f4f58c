import { type HeldLock } from './held-lock.js';
import { type HeldLockEvent } from './lock-events.js';

/** What every event of a lock that is held says. */
export const heldEvent = ({ key, mode, fencingToken, grant }: HeldLock): HeldLockEvent => ({
  key,
  mode,
  fencingToken,
  attempt: grant.attempt,
  ...grant.label,
});
