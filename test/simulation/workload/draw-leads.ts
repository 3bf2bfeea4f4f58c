import { type Rng } from '../world/rng.js';
import { type PlannedLead, type Profile } from './plan.js';

const KEYS = ['lead', 'other lead'];

/** Lets most processes campaign for one lead, or for two. */
export function drawLeads(rng: Rng, { shares, maxLeaseMs }: Profile, slots: number): readonly PlannedLead[] {
  if (shares.leaders === undefined) return [];
  const keys = KEYS.slice(0, rng.int(1, 2));
  return keys.flatMap((key) => {
    const leaseMs = Math.min(maxLeaseMs, rng.pick([1_000, 3_000, 10_000]));
    const campaigning = Array.from({ length: slots }, (_, slot) => slot).filter(() => rng.chance(shares.leaders!));
    return campaigning.map((slot): PlannedLead => {
      const termMs = rng.chance(0.5) ? rng.skewed(20, 15_000) : undefined;
      return { slot, key, leaseMs, termMs, goesOnMs: rng.pick([0, 0, 50, 2_000]) };
    });
  });
}
