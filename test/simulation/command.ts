import process from 'node:process';
import { writeFileSync } from 'node:fs';
import { type Library, loadLibrary } from './library/library.js';
import { type Report, runPlan } from './run-plan.js';
import { type Plan, type PlannedCall } from './workload/plan.js';
import { failedRuns, textOfRun } from './failed/failed-runs.js';
import { planOf } from './workload/draw-plan.js';
import { type Violation } from './world/world.js';

type Change = (plan: Plan) => Plan;

/** Parts of a call that it can do without. */
const SIMPLER: readonly ((call: PlannedCall) => PlannedCall)[] = [
  (call) => ({ ...call, steps: [] }),
  (call) => ({ ...call, nested: undefined }),
  (call) => ({ ...call, abortMs: undefined }),
  (call) => ({ ...call, keys: call.keys.slice(0, 1) }),
  ...(['take', 'permits', 'owner', 'fair', 'holdAtLeastMs', 'maxHoldMs', 'renew', 'awaitRelease'] as const).map(
    (name) => (call: PlannedCall) => ({ ...call, options: { ...call.options, [name]: undefined } }),
  ),
];

/** Makes a plan smaller as long as it breaks the same rule: fewer faults, calls and processes, and simpler calls. */
class Shrinker {
  #runs = 0;
  #best: Report;
  readonly #rule: string;

  constructor(
    private readonly library: Library,
    found: Report,
    private readonly maxRuns: number,
  ) {
    this.#best = found;
    this.#rule = found.violations[0]!.rule;
  }

  async shrink(): Promise<Report> {
    let size: number;
    do {
      size = JSON.stringify(this.#plan).length;
      await this.#try(endingAt(this.#best.violations[0]!.at + 1));
      await this.#dropFrom('faults');
      await this.#dropFrom('calls');
      await this.#dropFrom('leads');
      await this.#dropSlots();
      await this.#simplifyCalls();
    } while (this.#runs < this.maxRuns && JSON.stringify(this.#plan).length < size);
    return runPlan(this.library, this.#plan, { isTraced: true });
  }

  get #plan(): Plan {
    return this.#best.plan;
  }

  async #try(change: Change): Promise<boolean> {
    const plan = change(this.#plan);
    if (this.#runs >= this.maxRuns || JSON.stringify(plan) === JSON.stringify(this.#plan)) return false;
    this.#runs += 1;
    const report = await runPlan(this.library, plan);
    if (report.violations[0]?.rule !== this.#rule) return false;
    this.#best = report;
    return true;
  }

  /** Drops halves first, then smaller parts. */
  async #dropFrom(name: 'calls' | 'faults' | 'leads'): Promise<void> {
    const all = (plan: Plan) => plan[name] ?? [];
    for (let length = Math.ceil(all(this.#plan).length / 2); length >= 1; length = Math.floor(length / 2)) {
      for (let from = 0; from < all(this.#plan).length;) {
        const without: Change = (plan) => ({ ...plan, [name]: all(plan).toSpliced(from, length) });
        if (!(await this.#try(without))) from += length;
        if (this.#runs >= this.maxRuns) return;
      }
    }
  }

  async #dropSlots(): Promise<void> {
    for (let slot = this.#plan.slots.length - 1; slot >= 0; slot -= 1) await this.#try(withoutSlot(slot));
  }

  async #simplifyCalls(): Promise<void> {
    for (const i of this.#plan.calls.keys()) {
      for (const simpler of SIMPLER) {
        await this.#try((plan) => ({ ...plan, calls: plan.calls.with(i, simpler(plan.calls[i]!)) }));
      }
    }
  }
}

const endingAt =
  (ms: number): Change =>
  (plan) => ({
    ...plan,
    calls: plan.calls.filter(({ at }) => at < ms),
    faults: plan.faults.filter(({ at }) => at < ms),
  });

/** Without a process that no call is made in. */
const withoutSlot =
  (gone: number): Change =>
  (plan) => {
    const names = (one: object): boolean => 'slot' in one && one.slot === gone;
    if (plan.slots.length === 1 || plan.calls.some(names) || plan.faults.some(names) || plan.leads?.some(names))
      return plan;
    const moved = <T extends object>(one: T): T =>
      'slot' in one && (one.slot as number) > gone ? { ...one, slot: (one.slot as number) - 1 } : one;
    return {
      ...plan,
      slots: plan.slots.toSpliced(gone, 1),
      calls: plan.calls.map(moved),
      faults: plan.faults.map(moved),
      leads: plan.leads?.map(moved),
    };
  };

/** The calls that acquire a lock. `enter` is what a decorator calls. */
const ACQUIRES = ['acquire', 'tryAcquire', 'withLock', 'enter'];

/** The figures of all runs of a command. */
class Totals {
  runs = 0;
  readonly #counts = new Map<string, number>();
  readonly #calls = new Map<string, number>();
  readonly #start = performance.now();
  readonly #cpuStart = process.cpuUsage();
  readonly #sums = { events: 0, commands: 0, virtualMs: 0, violations: 0 };

  get seconds(): number {
    return (performance.now() - this.#start) / 1_000;
  }

  add(report: Report): void {
    this.runs += 1;
    for (const name of ['events', 'commands', 'virtualMs'] as const) this.#sums[name] += report[name];
    this.#sums.violations += report.violations.length;
    addTo(this.#counts, report.counts);
    addTo(this.#calls, report.calls);
  }

  get text(): string {
    const { events, commands, virtualMs, violations } = this.#sums;
    const { user, system } = process.cpuUsage(this.#cpuStart);
    const calls = sumOf(this.#calls.values());
    const acquires = sumOf(ACQUIRES.map((name) => this.#calls.get(name) ?? 0));
    const speed = `${Math.round(calls / this.seconds)} per second, ${Math.round(calls / ((user + system) / 1e6))} per second of CPU`;
    return [
      textOf(this.#counts),
      `calls: ${textOf(this.#calls)}`,
      `${this.runs} runs, ${calls} public calls (${speed}), ${acquires} of them acquires`,
      `${events} events, ${commands} commands, ${(virtualMs / 3_600_000).toFixed(2)} virtual hours, ${violations} violations`,
    ].join('\n');
  }
}

function addTo(sums: Map<string, number>, more: ReadonlyMap<string, number>): void {
  for (const [what, count] of more) sums.set(what, (sums.get(what) ?? 0) + count);
}

const sumOf = (numbers: Iterable<number>): number => [...numbers].reduce((sum, one) => sum + one, 0);

const textOf = (sums: ReadonlyMap<string, number>): string =>
  [...sums]
    .map(([what, count]) => `${what} ${count}`)
    .sort()
    .join(', ');

export { BUGS } from './planted/bugs.js';
export { printBugs } from './planted/find-bug.js';
export { PROFILE_NAMES } from './workload/draw-plan.js';

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
