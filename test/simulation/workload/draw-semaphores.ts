import { type Rng } from '../world/rng.js';
import { type PlannedCall, type Profile } from './plan.js';

/** Most calls of a key agree on its permits. */
const PERMITS = [5, 5, 5, 5, 3, 8];

/** Lets some calls take permits of a semaphore, one or several, instead of the lock that they were drawn for. */
export function withSemaphores(
  rng: Rng,
  { shares: { semaphores = 0 } }: Profile,
  calls: readonly PlannedCall[],
): readonly PlannedCall[] {
  if (semaphores === 0) return calls;
  return calls.map((call) => {
    if (call.claim || !rng.chance(semaphores)) return call;
    const permits = rng.pick(PERMITS);
    const take = rng.pick([1, 1, 2, 3, permits]);
    // To write inside what one reads is refused.
    return {
      ...call,
      nested: undefined,
      options: { ...call.options, mode: 'read', permits, take: Math.min(take, permits) },
    };
  });
}
