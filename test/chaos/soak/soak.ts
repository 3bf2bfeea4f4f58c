import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type ChaosServer } from '../servers.js';
import { type System } from '../topologies/system.js';
import { faultsOf, touches, union } from '../../checker/spans.js';
import { verdictOf, type Sample, sampleLine, seriesOf, type Verdict } from './verdict.js';
import { check, scopeOf } from '../../checker/check.js';
import { type History, type Violation } from '../../checker/history.js';
import { type Appointment, carryOut } from '../nemesis/plan.js';
import { readHistory, Recorder } from '../recorder.js';
import { now } from '../worker/standstills.mjs';
import { report } from '../report.js';
import { record, type RunOptions } from '../run.js';
import { randomFrom } from '../worker/random.mjs';
import { type Worker } from '../workers.js';

const MB = 2 ** 20;

/** What the servers use, all together, since masters and replicas change their places. */
async function measureServers({ servers, monitors = [] }: System, minute: number): Promise<Sample[]> {
  const ofServers = await Promise.all(servers.map(measure));
  const ofMonitors = await Promise.all(monitors.map(async (server) => ({ clients: (await infoOf(server)).clients })));
  return [
    { minute, source: 'servers', values: sum(ofServers) },
    ...(monitors.length > 0 ? [{ minute, source: 'sentinels', values: sum(ofMonitors) }] : []),
  ];
}

async function measure(server: ChaosServer): Promise<Record<string, number>> {
  const { clients, memory, scripts } = await infoOf(server);
  const channels = ((await server.send('PUBSUB', 'CHANNELS', 'chaos:*')) ?? []) as string[];
  const keys = ((await server.send('KEYS', 'chaos:*')) ?? []) as string[];
  const keyspace = /keys=(\d+),expires=(\d+)/.exec(String(await server.send('INFO', 'keyspace')));
  const kept = keyspace ? Number(keyspace[1]) - Number(keyspace[2]) : 0;
  return { clients, keys: keys.length, 'keys without expiry': kept, memory, channels: channels.length, scripts };
}

async function infoOf(server: ChaosServer): Promise<{ clients: number; memory: number; scripts: number }> {
  const info = String(await server.send('INFO'));
  const field = (name: string): number => Number(new RegExp(`^${name}:(\\d+)`, 'm').exec(info)?.[1] ?? 0);
  return {
    clients: field('connected_clients') + field('connected_slaves'),
    // The buffers of replication fill up to their size after each failover.
    memory: (field('used_memory') - field('mem_total_replication_buffers')) / MB,
    scripts: field('number_of_cached_scripts'),
  };
}

function sum(all: readonly Record<string, number>[]): Record<string, number> {
  const totals: Record<string, number> = {};
  for (const [name, value] of all.flatMap((one) => Object.entries(one))) totals[name] = (totals[name] ?? 0) + value;
  return totals;
}

/** The faults of each topology, which come in turn. */
const FAILOVERS: Record<string, readonly string[]> = {
  sentinel: ['planned failover', 'master killed'],
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
  /** How often everything is measured. */
  readonly everyMs: number;
  readonly plant: string | undefined;
}

export interface SoakResult {
  readonly verdicts: readonly Verdict[];
  readonly violations: readonly Violation[];
  /** Calls and faults, in readable form. */
  readonly summary: string;
}

export async function soak(options: SoakOptions): Promise<SoakResult> {
  const folder = mkdtempSync(join(tmpdir(), 'soak-'));
  const recorder = new Recorder(folder);
  const samples: Sample[] = [];
  await record(runOptions(options), recorder, async (workers, system) => {
    const failovers = carryOut(planFailovers(system, options), recorder);
    await measureRegularly(workers, system, { options, samples });
    await failovers;
  });
  const history = await readHistory(folder);
  const violations = violationsOf(history, options);
  if (violations.length > 0) console.log(`The history is in ${folder}`);
  else rmSync(folder, { recursive: true });
  return { verdicts: seriesOf(samples).map(verdictOf), violations, summary: report(history, violations) };
}

const runOptions = ({ topology, minutes, seed, workers, lanes, plant }: SoakOptions): RunOptions => ({
  topology,
  client: 'nestjs-redis-lock',
  ms: minutes * 60_000,
  seed,
  workers,
  lanes,
  minReplicas: 0,
  keep: false,
  worker: {
    workload: topology === 'quorum' ? 'quorumSoak' : 'soak',
    pauseMs: 150,
    // What is measured between the calls is unused here.
    does: [],
    keepMs: KEEP_MS,
    execArgv: ['--expose-gc', '--disable-warning=ExperimentalWarning'],
    soak: { plant },
  },
});

function violationsOf(history: History, { topology, plant }: SoakOptions): Violation[] {
  const rules = check(history, { ...scopeOf(topology, true), isOurs: false });
  // `unexpectedErrors` knows better which errors may come, and when.
  // A planted fault is also found at the end; a soak must find it earlier.
  return [...rules, ...unexpectedErrors(history)].filter(({ rule }) => !plant || rule !== 'nothing-left');
}

/** One in each minute, early enough that the servers have settled before its end. */
function planFailovers(system: System, options: SoakOptions): Appointment[] {
  const random = randomFrom(options.seed);
  const kinds = FAILOVERS[options.topology]!.map((name) => system.faults.find((fault) => fault.name === name)!);
  return Array.from({ length: Math.floor(options.minutes) }, (_, i) => {
    const kind = kinds[i % kinds.length]!;
    const atMs = 60_000 * (i + random.next() / 4 + 1 / 4);
    return { atMs, fault: { kind: kind.name, ...kind.plan(random) } };
  });
}

interface Measuring {
  readonly options: SoakOptions;
  readonly samples: Sample[];
}

/** Before each measurement, all workers rest, so that it does not include the resources of running calls. */
async function measureRegularly(
  workers: readonly Worker[],
  system: System,
  { options, samples }: Measuring,
): Promise<void> {
  const start = now();
  const { minutes, everyMs } = options;
  for (let atMs = everyMs; atMs <= minutes * 60_000; atMs += everyMs) {
    await sleep(Math.max(0, start + atMs - now()));
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

/** Answers that a call may get at any time: the lock is busy, its wait over, its caller's signal aborted, its fire run. */
const ANSWERS = ['LOCK_BUSY', 'LOCK_WAIT_TIMEOUT', 'TimeoutError', 'skipped'];

/** Answers that it may get while the servers fail over, or after a standstill of its process or the networks. */
const OF_FAILOVERS = ['LOCK_STORE', 'LOCK_LOST'];

/** A shorter standstill ends no lease and no connection. */
const STANDSTILL_MS = 200;
/** The longest wait; a look at a lock has no begin in the history. */
const LONGEST_MS = 7_000;

/** Errors that neither a failover nor a standstill explains. */
export function unexpectedErrors(history: History): Violation[] {
  const standstills = [...history.processes.values()].flatMap((process) => process.standstills);
  const spans = [...standstills, ...history.standstills]
    .filter(({ from, to }) => to - from > STANDSTILL_MS)
    .map(({ from, to }) => ({ from, to: to + history.limits.recoveryMs }));
  const faults = union([...faultsOf(history, undefined), ...spans]);
  const isExpected = (code: string, from: number, to: number): boolean =>
    ANSWERS.includes(code) || (OF_FAILOVERS.includes(code) && faults.some((fault) => touches(fault, { from, to })));
  const violation = (t: number, text: string): Violation => ({ rule: 'no-stray-errors', t, text });
  const ofCalls = [...history.calls.values()].flatMap(({ op, failure, failedAt = 0, calledAt }) =>
    failure === undefined || isExpected(failure, calledAt, failedAt)
      ? []
      : [violation(failedAt, `${op} failed: ${failure}`)],
  );
  const ofOthers = history.errors
    .filter(({ code, t }) => !isExpected(code, t - LONGEST_MS, t))
    .map(({ process, what, code, t }) => violation(t, `${what} of ${process} failed: ${code}`));
  return [...ofCalls, ...ofOthers].sort((a, b) => a.t - b.t);
}
