import { writeFileSync } from 'node:fs';
import process from 'node:process';
import { parseArgs } from 'node:util';
import { loadLibrary } from './library/library.js';
import { type Report, runPlan } from './run-plan.js';
import { planOf } from './seeds.js';

const OPTIONS = {
  seconds: { type: 'string' },
  runs: { type: 'string' },
  seed: { type: 'string', default: '1' },
  profile: { type: 'string' },
  trace: { type: 'string' },
  hash: { type: 'boolean', default: false },
} as const;

/** The command `npm run simulate`; resolves to its exit status. */
export async function runCommand(args: readonly string[]): Promise<number> {
  const { values } = parseArgs({ args: [...args], options: OPTIONS });
  const library = loadLibrary();
  const start = performance.now();
  const seconds = (): number => (performance.now() - start) / 1_000;
  const cpuStart = process.cpuUsage();
  const cpuSeconds = (): number => {
    const { user, system } = process.cpuUsage(cpuStart);
    return (user + system) / 1e6;
  };
  const [limit, runs] = [Number(values.seconds ?? Infinity), Number(values.runs ?? (values.seconds ? Infinity : 1))];
  if (values.trace === undefined) Error.stackTraceLimit = 0;
  const sum = { runs: 0, calls: 0, events: 0, commands: 0, virtualMs: 0, violations: 0 };
  const counts = new Map<string, number>();
  for (let seed = Number(values.seed); sum.runs < runs && seconds() < limit; seed += 1) {
    const report = await runPlan(library, planOf(seed, values.profile), { isTraced: values.trace !== undefined });
    add(sum, report);
    for (const [what, count] of report.counts) counts.set(what, (counts.get(what) ?? 0) + count);
    if (values.hash) console.log(`${seed} ${report.plan.profileName} ${report.digest}`);
    for (const { rule, at, text } of report.violations) {
      console.log(`seed ${seed} (${report.plan.profileName}) at ${at.toFixed(0)} ms: ${rule}: ${text}`);
    }
    if (values.trace !== undefined) writeFileSync(values.trace, report.trace!.join('\n'));
  }
  console.log([...counts].map(([what, count]) => `${what} ${count}`).join(', '));
  console.log(
    `${sum.runs} runs, ${sum.calls} calls (${Math.round(sum.calls / cpuSeconds())} per second of CPU), ${sum.events} events, ` +
      `${sum.commands} commands, ${(sum.virtualMs / 3_600_000).toFixed(2)} virtual hours, ${sum.violations} violations`,
  );
  return sum.violations > 0 ? 1 : 0;
}

function add(sum: Record<string, number>, report: Report): void {
  sum['runs']! += 1;
  for (const name of ['calls', 'events', 'commands', 'virtualMs'] as const) sum[name]! += report[name];
  sum['violations']! += report.violations.length;
}
