import { writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { failedRuns, textOfRun } from './failed/failed-runs.js';
import { type Library, loadLibrary } from './library/library.js';
import { printBugs } from './planted/print-bugs.js';
import { type Report, runPlan } from './run-plan.js';
import { planOf } from './seeds.js';
import { Shrinker } from './shrink.js';
import { Totals } from './totals.js';
import { type Violation } from './world/world.js';
import { type Plan } from './workload/plan.js';

const OPTIONS = {
  /** For how long, or how many runs; without both, one run. */
  seconds: { type: 'string' },
  runs: { type: 'string' },
  seed: { type: 'string', default: '1' },
  profile: { type: 'string' },
  /** Where to write the log of the last run, or of the smallest run that breaks a rule. */
  trace: { type: 'string' },
  /** Prints the digest of each run. */
  hash: { type: 'boolean', default: false },
  /** Looks for the planted bugs instead. */
  bugs: { type: 'boolean', default: false },
  /** With `bugs`: looks at so many seeds, whatever a bug says; and only at bugs whose names contain this. */
  seeds: { type: 'string' },
  only: { type: 'string' },
  /** How many runs may be spent on making a run that breaks a rule smaller. */
  shrink: { type: 'string', default: '300' },
} as const;

/** The command `npm run simulate`; resolves to its exit status. */
export async function runCommand(args: readonly string[]): Promise<number> {
  const { values } = parseArgs({ args: [...args], options: OPTIONS });
  if (values.bugs) return printBugs({ seeds: values.seeds ? Number(values.seeds) : undefined, only: values.only });
  if (values.trace === undefined) Error.stackTraceLimit = 0;
  const library = loadLibrary();
  const totals = new Totals();
  const limit = {
    seconds: Number(values.seconds ?? Infinity),
    runs: Number(values.runs ?? (values.seconds ? Infinity : 1)),
  };
  let worst: Report | undefined;
  for (const plan of plansToRun(Number(values.seed), values.profile)) {
    if (totals.runs >= limit.runs || totals.seconds >= limit.seconds) break;
    const isTraced = values.trace !== undefined;
    const report = await runPlan(library, plan, { isTraced });
    totals.add(report);
    if (values.hash) console.log(`${plan.seed} ${plan.profileName} ${report.digest}`);
    if (isTraced && !worst) writeFileSync(values.trace!, traceOf(report));
    if (report.violations.length > 0) console.log(violationsOf(report));
    worst ??= report.violations.length > 0 ? report : undefined;
  }
  console.log(totals.text);
  if (worst) await shrink(library, worst, Number(values.shrink), values.trace);
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
