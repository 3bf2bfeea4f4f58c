import { type StoreHold } from './store-hold.js';
import { type HeldLockEvent } from '../lock.events.js';

/** For how long it has been held so far, from before the command that acquired it. */
export const heldMsOf = ({ grant, keeper }: StoreHold): number => Math.round(keeper.clock.now() - grant.sent.at);

/** What every event of a lock that is held says. */
export const heldEvent = ({ key, mode, fencingToken, grant }: StoreHold): HeldLockEvent => ({
  key,
  mode,
  fencingToken,
  attempt: grant.attempt,
  ...grant.label,
});
