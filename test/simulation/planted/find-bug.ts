import { type FailedRun, failedRuns } from '../failed/failed-runs.js';
import { type Library, loadLibrary } from '../library/library.js';
import { type Report, runPlan } from '../run-plan.js';
import { planOf, PROFILE_NAMES } from '../seeds.js';
import { BUGS } from './bugs.js';
import { type FoundBug } from './found-bug.js';

export { BUGS, failedRuns, PROFILE_NAMES };

/** The first seed of a profile whose run counts; null if none of these does. */
async function firstSeed(
  library: Library,
  { profile, seeds }: { readonly profile?: string; readonly seeds: number },
  counts: (report: Report) => boolean,
): Promise<Report | null> {
  for (let seed = 1; seed <= seeds; seed += 1) {
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
  firstSeed(loadLibrary(bug), { profile: bug.profile, seeds }, finds(bug));

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
