import { drawPlan } from './workload/draw-plan.js';
import { type Plan } from './workload/plan.js';
import { PROFILES } from './workload/profiles.js';

export const PROFILE_NAMES = Object.keys(PROFILES);

/** The plan of a seed. Seeds take the profiles in turn, unless one is named. */
export function planOf(seed: number, profileName = PROFILE_NAMES[seed % PROFILE_NAMES.length]!): Plan {
  const profile = PROFILES[profileName];
  if (!profile) throw new Error(`Unknown profile ${profileName}; there are ${PROFILE_NAMES.join(', ')}.`);
  return drawPlan(seed, profileName, profile);
}
