import { type LockEventName } from '../../../lib/index.js';

/** All that are documented; written here once more, so that one which is missing in the library is missed. */
export const EVENT_NAMES: readonly LockEventName[] = [
  'acquired', 'acquireFailed', 'waiting', 'released', 'renewed', 'renewFailed', 'lost', 'skipped', 'timedOut', 'reentered',
]; // prettier-ignore
