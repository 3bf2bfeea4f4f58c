import { type FailedRun, failedRuns } from '../failed/failed-runs.js';
import { type Library, loadLibrary } from '../library/library.js';
import { type Report, runPlan } from '../run-plan.js';
import { planOf, PROFILE_NAMES } from '../seeds.js';
import { BUGS, type FoundBug } from './bugs.js';

export { BUGS, failedRuns, PROFILE_NAMES };

/** The first seed of a profile whose run counts, of those from 1 to `seeds`; null if none of these does. */
async function firstSeed(
  library: Library,
  { profile, seeds, foundBy = 1 }: Pick<FoundBug, 'seeds' | 'foundBy'> & { readonly profile?: string },
  counts: (report: Report) => boolean,
): Promise<Report | null> {
  const others = Array.from({ length: seeds }, (_, i) => i + 1).filter((seed) => seed !== foundBy);
  for (const seed of [foundBy, ...others]) {
    const report = await runPlan(library, planOf(seed, profile));
    if (counts(report)) return report;
  }
  return null;
}

/** Whether a run breaks one of the rules that a bug breaks. */
export const finds =
  ({ rules }: FoundBug) =>
  ({ violations }: Report): boolean =>
    violations.some(({ rule }) => rules.includes(rule));

/** Runs a library with a planted bug until it breaks one of its rules, for at most its number of seeds or another one. */
export const findBug = (bug: FoundBug, seeds = bug.seeds): Promise<Report | null> =>
  firstSeed(loadLibrary(bug), { profile: bug.profile, seeds, foundBy: bug.foundBy }, finds(bug));

/** Runs the library as it is. */
export const findNothing = (profile: string): Promise<Report | null> =>
  firstSeed(loadLibrary(), { profile, seeds: 1 }, ({ violations }) => violations.length > 0);

/** Runs a plan that failed once: the rules that it breaks now, and those that it breaks without the fix. */
export async function failAgain({
  name,
  plan,
  without,
}: FailedRun): Promise<{ withFix: string[]; withoutFix: string[] }> {
  const rulesBroken = async (library: Library): Promise<string[]> =>
    (await runPlan(library, plan)).violations.map(({ rule }) => rule);
  return {
    withFix: await rulesBroken(loadLibrary()),
    withoutFix: await rulesBroken(loadLibrary({ name, ...without })),
  };
}

/** The digest of a run of a seed. */
export const digestOf = async (seed: number): Promise<string> => (await runPlan(loadLibrary(), planOf(seed))).digest;
