import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { check } from '../checker/check.js';
import { type Violation } from '../checker/violation.js';
import { carryOut } from '../nemesis/nemesis.js';
import { type Appointment } from '../nemesis/plan.js';
import { Recorder, now, readHistory } from '../recorder.js';
import { report } from '../report.js';
import { record } from '../run.js';
import { type System } from '../topologies/system.js';
import { randomFrom } from '../worker/random.mjs';
import { type Worker } from '../workers.js';
import { unexpectedErrors } from './errors.js';
import { type Sample, seriesOf } from './series.js';
import { measureServers } from './server-usage.js';
import { sampleLine } from './text.js';
import { type Verdict, judge } from './verdict.js';

/** The faults of each topology, which come in turn. */
const FAILOVERS: Record<string, readonly string[]> = {
  sentinel: ['planned failover', 'master killed'],
  cluster: ['planned failover', 'master killed'],
  quorum: ['server killed', 'node comes back empty'],
};

export const SOAK_TOPOLOGIES = Object.keys(FAILOVERS);

/** As short as it may be, so that the number of keys has settled soon. */
const KEEP_MS = 60_000;

/** Leaks that a soak must find (worker/soak/plants.mjs). */
export const PLANTS = ['locks', 'subscriber', 'key'];

export interface SoakOptions {
  readonly topology: string;
  readonly minutes: number;
  readonly seed: number;
  readonly workers: number;
  readonly lanes: number;
  /** How long a round takes: one failover, then one measurement. */
  readonly roundMs: number;
  readonly plant: string | undefined;
}

export interface SoakResult {
  readonly verdicts: readonly Verdict[];
  readonly violations: readonly Violation[];
  /** Calls and faults, for people to read. */
  readonly summary: string;
}

export async function soak(options: SoakOptions): Promise<SoakResult> {
  const { topology, seed, workers, lanes, plant } = options;
  const folder = mkdtempSync(join(tmpdir(), 'soak-'));
  const recorder = new Recorder(folder);
  const samples: Sample[] = [];
  const worker = {
    workload: topology === 'quorum' ? 'quorumSoak' : 'soak',
    pauseMs: 150,
    keepMs: KEEP_MS,
    execArgv: ['--expose-gc', '--disable-warning=ExperimentalWarning'],
    soak: { plant },
  };
  const run = {
    topology,
    client: 'nestjs-redis-lock',
    ms: options.minutes * 60_000,
    seed,
    workers,
    lanes,
    minReplicas: 0,
    keep: false,
    worker,
  };
  await record(run, recorder, async (processes, system) => {
    const failovers = carryOut(planFailovers(system, options), recorder);
    await measureRounds(processes, system, { options, samples });
    await failovers;
  });
  const history = await readHistory(folder);
  const isQuorum = topology === 'quorum';
  const rules = check(history, { readersMayTie: isQuorum, hasQueue: !isQuorum });
  const violations = [...rules, ...unexpectedErrors(history)].filter(({ rule }) => !plant || rule !== 'nothing-left');
  if (violations.length > 0) console.log(`The history is in ${folder}`);
  else rmSync(folder, { recursive: true });
  return { verdicts: seriesOf(samples).map(judge), violations, summary: report(history, violations) };
}

const roundsOf = ({ minutes, roundMs }: SoakOptions): number => Math.max(1, Math.floor((minutes * 60_000) / roundMs));

/** One in each round, early enough that the servers have settled before its end. */
function planFailovers(system: System, options: SoakOptions): Appointment[] {
  const random = randomFrom(options.seed);
  const kinds = FAILOVERS[options.topology]!.map((name) => system.faults.find((fault) => fault.name === name)!);
  return Array.from({ length: roundsOf(options) }, (_, i) => {
    const kind = kinds[i % kinds.length]!;
    const atMs = options.roundMs * (i + random.next() / 4 + 1 / 4);
    return { atMs, fault: { kind: kind.name, ...kind.plan(random) } };
  });
}

interface Measuring {
  readonly options: SoakOptions;
  readonly samples: Sample[];
}

/** At the end of each round, all workers rest: what is there then is not what their calls use. */
async function measureRounds(
  workers: readonly Worker[],
  system: System,
  { options, samples }: Measuring,
): Promise<void> {
  const start = now();
  for (let round = 1; round <= roundsOf(options); round += 1) {
    await sleep(Math.max(0, start + round * options.roundMs - now()));
    const minute = (now() - start) / 60_000;
    const ofWorkers = await Promise.all(
      workers.map(async (worker) => ({ minute, source: worker.name, values: (await worker.restAndMeasure()) ?? {} })),
    );
    const all = [...ofWorkers, ...(await measureServers(system, minute))];
    for (const sample of all) console.log(sampleLine(sample));
    samples.push(...all);
    for (const worker of workers) worker.goOn();
  }
}
