import { writeFileSync } from 'node:fs';
import { failedRuns, textOfRun } from './failed/failed-runs.js';
import { type Library, loadLibrary } from './library/library.js';
import { type Report, runPlan } from './run-plan.js';
import { planOf } from './seeds.js';
import { Shrinker } from './shrink.js';
import { Totals } from './totals.js';
import { type Violation } from './world/world.js';
import { type Plan } from './workload/plan.js';

export { BUGS } from './planted/bugs.js';
export { printBugs } from './planted/find-bug.js';
export { PROFILE_NAMES } from './seeds.js';

/** The options of `node scripts/simulate.mjs` (scripts/simulate.mjs). */
interface SimulateOptions {
  readonly seconds?: number;
  readonly runs?: number;
  readonly seed: number;
  readonly profile?: string;
  readonly trace?: string;
  readonly hash: boolean;
  readonly shrink: number;
}

/** The command `node scripts/simulate.mjs`; resolves to its exit status. */
export async function simulate(options: SimulateOptions): Promise<number> {
  const { seconds, seed, profile, trace, hash, shrink: maxShrinkRuns } = options;
  const runs = options.runs ?? (seconds === undefined ? 1 : Infinity);
  const isTraced = trace !== undefined;
  if (!isTraced) Error.stackTraceLimit = 0;
  const library = loadLibrary();
  const totals = new Totals();
  let worst: Report | undefined;
  for (const plan of plansToRun(seed, profile)) {
    if (totals.runs >= runs || totals.seconds >= (seconds ?? Infinity)) break;
    const report = await runPlan(library, plan, { isTraced });
    totals.add(report);
    if (hash) console.log(`${plan.seed} ${plan.profileName} ${report.digest}`);
    if (isTraced && !worst) writeFileSync(trace, traceOf(report));
    if (report.violations.length > 0) console.log(violationsOf(report));
    worst ??= report.violations.length > 0 ? report : undefined;
  }
  console.log(totals.text);
  if (worst) await shrink(library, worst, maxShrinkRuns, trace);
  return worst ? 1 : 0;
}

/** Runs that failed once come first, unless one run is asked for. */
function* plansToRun(from: number, profile: string | undefined): Generator<Plan> {
  if (from === 1 && profile === undefined) for (const { plan } of failedRuns()) yield plan;
  for (let seed = from; ; seed += 1) yield planOf(seed, profile);
}

async function shrink(library: Library, worst: Report, maxRuns: number, file = 'simulation-trace.txt'): Promise<void> {
  if (maxRuns === 0) return;
  const small = await new Shrinker(library, worst, maxRuns).shrink();
  writeFileSync(file, traceOf(small));
  const [{ rule }] = small.violations as [Violation];
  writeFileSync(`${file}.json`, textOfRun({ rule, plan: small.plan }));
  const { calls, faults, slots } = small.plan;
  const size = `${calls.length} calls, ${faults.length} faults and ${slots.length} processes`;
  console.log(
    `Smallest run that breaks the same rule: ${size}; its log is in ${file}, its plan in ${file}.json.\n${violationsOf(small)}`,
  );
}

const violationsOf = ({ violations, plan: { seed, profileName } }: Report): string =>
  violations
    .map(({ rule, at, text }) => `seed ${seed} (${profileName}) at ${at.toFixed(0)} ms: ${rule}: ${text}`)
    .join('\n');

function traceOf({ plan, trace }: Report): string {
  const { seed, profileName, slots, calls, faults } = plan;
  const parts = [`seed ${seed}, profile ${profileName}`, ...slots, ...calls, ...faults, ''];
  return [...parts.map((part) => (typeof part === 'string' ? part : JSON.stringify(part))), ...(trace ?? [])].join(
    '\n',
  );
}
