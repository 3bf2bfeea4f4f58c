import { type FailedRun, failedRuns } from '../failed/failed-runs.js';
import { type Library, loadLibrary } from '../library/library.js';
import { type Report, runPlan } from '../run-plan.js';
import { PROFILE_NAMES, planOf } from '../workload/draw-plan.js';
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

/**
 * Looks for each planted bug whose name contains `only`, and prints the first seed that finds it. With `seeds`, it tries this
 * number of seeds instead of the stated one: this is how the stated numbers are counted again. The exit status is 1 if a bug is not
 * found within its stated number of seeds.
 */
export async function printBugs({
  seeds,
  only = '',
}: {
  readonly seeds?: number;
  readonly only?: string;
}): Promise<number> {
  const bugs = BUGS.filter(({ name }) => name.includes(only));
  let missed = 0;
  for (const bug of bugs) {
    const report = await findBug(bug, seeds);
    const seed = report?.plan.seed ?? Infinity;
    if (seed > bug.seeds) missed += 1;
    const rule = report?.violations.find((one) => finds(bug)({ ...report, violations: [one] }))?.rule;
    const found = report ? `seed ${seed} of ${bug.seeds} of ${bug.profile} (${rule})` : `NOT FOUND in ${bug.profile}`;
    console.log(`${bug.name}: ${found}`);
  }
  console.log(`${bugs.length - missed} of ${bugs.length} planted bugs found within their seeds`);
  return missed > 0 ? 1 : 0;
}
