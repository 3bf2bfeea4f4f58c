import { type LockEventName } from '../../../lib/index.js';

/** All documented events, repeated here so that a test fails when one is missing in the library. */
export const EVENT_NAMES: readonly LockEventName[] = [
  'acquired', 'acquireFailed', 'waiting', 'released', 'renewed', 'renewFailed', 'lost', 'skipped', 'timedOut', 'reentered',
  'elected', 'demoted', 'forced',
]; // prettier-ignore
