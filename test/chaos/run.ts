import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { type ChaosServer, compileClockShim } from './servers.js';
import { type System, type SystemOptions } from './topologies/system.js';
import { type Deed } from '../checker/events.js';
import { Resource } from '../checker/registers.js';
import { check, scopeOf } from '../checker/check.js';
import { carryOut, chosen, planFaults } from './nemesis/plan.js';
import { workerFaults } from './nemesis/network-faults.js';
import { readHistory, Recorder } from './recorder.js';
import { report } from './report.js';
import { startCluster } from './topologies/cluster.js';
import { startQuorum, startSingle } from './topologies/single.js';
import { startSentinel } from './topologies/sentinel.js';
import { now, watchStandstills } from './worker/standstills.mjs';
import { randomFrom } from './worker/random.mjs';
import { type Parcel, Worker, type WorkerSettings } from './workers.js';

const LISTER = join(import.meta.dirname, 'worker', 'list.mjs');

/** The connection that asks, and those of replicas and sentinels. */
const OF_SERVERS = /cmd=client\|list|flags=[SM]|name=sentinel-/;

/** What is left on the servers when all processes have ended and all leases are over. */
async function look({ servers, directConnection }: System, client: string): Promise<string[]> {
  const found = await Promise.all(servers.map((server, i) => lookAt(server, `server ${i}`)));
  // The peers have no list of their locks.
  const held = client === 'nestjs-redis-lock' ? await list(directConnection) : [];
  return [...found.flat(), ...held.map((state) => `still held or waited for: ${state}`)];
}

async function lookAt(server: ChaosServer, name: string): Promise<string[]> {
  const channels = (await server.send('PUBSUB', 'CHANNELS', '*')) as string[] | undefined;
  if (!channels) return [`${name} does not answer`];
  const clients = String(await server.send('CLIENT', 'LIST'))
    .trim()
    .split('\n');
  const keys = (await server.send('KEYS', '*')) as string[];
  const kept = await Promise.all(keys.map(async (key) => ((await server.send('PTTL', key)) === -1 ? [key] : [])));
  return [
    ...channels
      .filter((channel) => !channel.startsWith('__'))
      .map((channel) => `${name} has a subscriber of ${channel}`),
    ...clients.filter((line) => !OF_SERVERS.test(line)).map((line) => `${name} has a client: ${line}`),
    ...kept.flat().map((key) => `${name} keeps ${key} forever`),
  ];
}

async function list(connection: unknown): Promise<string[]> {
  const { stdout } = await promisify(execFile)(process.execPath, [LISTER, JSON.stringify(connection)]);
  return JSON.parse(stdout) as string[];
}

const TOPOLOGIES: Record<string, (options: SystemOptions) => Promise<System>> = {
  single: startSingle,
  sentinel: startSentinel,
  cluster: startCluster,
  quorum: startQuorum,
};

export const TOPOLOGY_NAMES = Object.keys(TOPOLOGIES);

export const OURS = 'nestjs-redis-lock';

/** The others are peers, to compare them under the same faults. */
export const CLIENTS = [OURS, 'redlock', 'redis-semaphore'];

/** How many replicas a master has on each topology. */
export const MAX_REPLICAS: Record<string, number> = { single: 0, sentinel: 2, cluster: 1, quorum: 0 };

/** What the peers cannot do. */
const DEEDS: readonly Deed[] = ['transfers', 'leads'];

/** The longest lease that a call may have (an extension of 4 s), and some time for a busy machine. */
const LEASES_OVER_MS = 5_000;

export interface RunOptions {
  readonly topology: string;
  readonly client: string;
  readonly ms: number;
  readonly seed: number;
  readonly workers: number;
  readonly lanes: number;
  /** How many replicas confirm a grant. */
  readonly minReplicas: number;
  /** Only faults of these kinds; all by default. */
  readonly only?: readonly string[];
  /** Keeps the history even if no rule was broken. */
  readonly keep: boolean;
  /** What the workers do in addition to the calls of their lanes. */
  readonly worker?: Partial<WorkerSettings>;
}

/** Runs the workers and the nemesis, then checks what happened; resolves to whether no rule was broken. */
export async function run(options: RunOptions): Promise<boolean> {
  const folder = mkdtempSync(join(tmpdir(), 'chaos-'));
  const recorder = new Recorder(folder);
  await record(options, recorder, async (workers, system) => {
    const kinds = chosen([...workerFaults(workers), ...system.faults], options.only);
    const start = now();
    await carryOut(planFaults(kinds, options.seed, options.ms), recorder);
    await sleep(Math.max(0, start + options.ms - now()));
  });
  const history = await readHistory(folder);
  const violations = check(history, scopeOf(options.topology, options.client === OURS));
  console.log(report(history, violations));
  if (violations.length > 0 || options.keep) console.log(`The history is in ${folder}`);
  else rmSync(folder, { recursive: true });
  return violations.length === 0;
}

/** Starts the servers and the workers, lets `act` disturb them, ends the workers, and checks what is left. */
export async function record(
  options: RunOptions,
  recorder: Recorder,
  act: (workers: readonly Worker[], system: System) => Promise<void>,
): Promise<void> {
  const names = Array.from({ length: options.workers }, (_, i) => `w${i}`);
  const shim = compileClockShim(recorder.folder);
  if (!shim) console.log('No C compiler: the clocks of the servers are not stepped.');
  const system = await TOPOLOGIES[options.topology]!({ workers: names, shim, minReplicas: options.minReplicas });
  const workers: Worker[] = [];
  const random = randomFrom(options.seed);
  const passOn = (parcel: Parcel): void => random.pick(workers).receive(parcel);
  process.once('exit', () => workers.forEach((worker) => worker.killNow()));
  // All networks pass through this process.
  const stopWatching = watchStandstills((from) => recorder.note({ e: 'lag', from }));
  let watching = Promise.resolve();
  let isOver = false;
  try {
    const resource = new Resource();
    workers.push(...names.map((name, i) => makeWorker(name, i, { options, recorder, resource, system, passOn })));
    await Promise.all(workers.map((worker) => worker.start()));
    if (options.minReplicas > 0) watching = watchReplicas(system, recorder, () => isOver);
    await act(workers, system);
    recorder.note({ e: 'stopping' });
    isOver = true;
    await watching;
    await Promise.all(workers.map((worker) => worker.end()));
    system.disconnect();
    for (const [key, totals] of resource.totals()) recorder.note({ e: 'resource', key, ...totals });
    await sleep(LEASES_OVER_MS);
    for (const what of await look(system, options.client)) recorder.note({ e: 'left', what });
  } finally {
    stopWatching();
    for (const worker of workers) worker.killNow();
    await system.stop();
  }
}

/** ioredis asks a node of a cluster for the slots on a connection that it leaves open for a second if there is no answer. */
const REFRESH_MS = 1_500;

const LOOK_EVERY_MS = 250;

/** Nothing is granted while the replicas that are to confirm it are away. Sentinel takes its time to bring them back. */
async function watchReplicas(system: System, recorder: Recorder, isOver: () => boolean): Promise<void> {
  let away: number | undefined;
  for (let id = 1_000_000; !isOver(); id += 1) {
    const isComplete = (await system.isComplete?.()) ?? true;
    if (!isComplete && away === undefined) recorder.note({ e: 'fault', id: (away = id), kind: 'replica away' });
    if (isComplete && away !== undefined) {
      recorder.note({ e: 'over', id: away });
      away = undefined;
    }
    await sleep(LOOK_EVERY_MS);
  }
}

interface Parts {
  readonly options: RunOptions;
  readonly recorder: Recorder;
  readonly resource: Resource;
  readonly system: System;
  readonly passOn: (parcel: Parcel) => void;
}

function makeWorker(name: string, i: number, { options, recorder, resource, system, passOn }: Parts): Worker {
  const own = options.topology === 'quorum' ? 'quorum' : 'full';
  const settings = {
    client: options.client,
    workload: options.client === OURS ? own : 'peers',
    lanes: options.lanes,
    minReplicas: options.minReplicas,
    // ioredis keeps a timer until a socket that it closes reports its end.
    lingersMs: options.topology === 'cluster' ? REFRESH_MS : 100,
    pauseMs: 30,
    does: options.client === OURS ? DEEDS : [],
    seed: options.seed * 100 + i,
    ...options.worker,
  };
  return new Worker(name, system.connections[i], settings, recorder, resource, passOn);
}
