import { BUGS, findBug, finds } from './find-bug.js';

/**
 * Looks for each planted bug whose name contains `only`, and prints the first seed that finds it. With `seeds`, it looks at so
 * many seeds instead of the stated ones: that is how the stated ones are counted anew. The exit status is 1 if a bug is not
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
