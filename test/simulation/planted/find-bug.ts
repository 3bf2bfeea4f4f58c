import { type Library, loadLibrary } from '../library/library.js';
import { type Report, runPlan } from '../run-plan.js';
import { planOf } from '../seeds.js';
import { BUGS, type FoundBug } from './bugs.js';

export { BUGS };

/** The first seed of a profile that breaks a rule; null if none of these does. */
export async function firstBadSeed(
  library: Library,
  { profile, seeds }: { readonly profile?: string; readonly seeds: number },
): Promise<Report | null> {
  for (let seed = 1; seed <= seeds; seed += 1) {
    const report = await runPlan(library, planOf(seed, profile));
    if (report.violations.length > 0) return report;
  }
  return null;
}

/** Runs a library with a planted bug until it breaks a rule, for at most its number of seeds. */
export const findBug = (bug: FoundBug): Promise<Report | null> => firstBadSeed(loadLibrary(bug), bug);

/** Runs the library as it is. */
export const findNothing = (seeds: number): Promise<Report | null> => firstBadSeed(loadLibrary(), { seeds });

/** The digest of a run of a seed. */
export const digestOf = async (seed: number): Promise<string> => (await runPlan(loadLibrary(), planOf(seed))).digest;
