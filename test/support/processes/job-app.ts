import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { type LockedOptions, type RedisLockModuleOptions } from '../../../lib/index.js';
import { buildPackage, withLibrary } from './child-app.js';
import { eventually } from '../waiting/eventually.js';
import { closeLater } from '../apps/lock-app.js';
import { topology } from '../topologies/topology.js';

/** When the job of a process fires. */
type JobSchedule =
  | { readonly kind: 'cron'; readonly cron: string; readonly timeZone?: string }
  | { readonly kind: 'interval'; readonly intervalMs: number }
  | { readonly kind: 'timeout'; readonly timeoutMs: number };

export interface JobOptions {
  readonly key: string;
  readonly schedule: JobSchedule;
  readonly locked?: LockedOptions;
  readonly module?: RedisLockModuleOptions;
  /** By how many ms the clock of the process is wrong. */
  readonly skewMs?: number;
  /** The time zone of the process itself; that of this machine by default. */
  readonly localZone?: string;
  readonly workMs?: number;
}

/** A run: its fire by `lastRun`, in milliseconds, and the token that it got. */
interface JobRun {
  readonly fire: number;
  readonly fencingToken: number;
}

/** A call that did not run; `at` is by the clock of its process. */
interface JobSkip {
  readonly at: number;
  readonly reason: string;
}

/** An instance of an app with one scheduled job in a child process, and the reports of that process. */
export interface JobApp {
  readonly process: ChildProcess;
  /** As `lastRun` names it. */
  readonly instance: string;
  readonly runs: JobRun[];
  readonly skips: JobSkip[];
  /** Every log line above debug, except those of Nest's start. */
  readonly logs: string[];
  /** Sends SIGTERM and waits for the end of the process. */
  stop(): Promise<void>;
  /** Sends SIGKILL: the app has no chance to release anything. */
  kill(): Promise<void>;
}

type Message =
  | ({ readonly kind: 'run' } & JobRun)
  | ({ readonly kind: 'skipped' } & JobSkip)
  | { readonly kind: 'log'; readonly level: string; readonly context: string; readonly text: string }
  | { readonly kind: 'ready' };

const OF_NEST = ['NestFactory', 'InstanceLoader', 'NestApplicationContext'];

/** Starts an instance; it is killed with the test. */
export async function startJob(options: JobOptions): Promise<JobApp> {
  const { key, schedule, locked, module, skewMs = 0, localZone, workMs = 1 } = options;
  await buildPackage();
  const settings = { connection: topology.connection, ...module };
  const argument = { module: settings, key, schedule, locked: { oncePer: 'fire', ...locked }, skewMs, workMs };
  const child = fork(join(import.meta.dirname, 'job-process.mjs'), [JSON.stringify(argument)], {
    execArgv: withLibrary.execArgv,
    env: { ...process.env, ...withLibrary.env, ...(localZone !== undefined && { TZ: localZone }) },
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  });
  const isOver = (): boolean => child.exitCode !== null || child.signalCode !== null;
  const end = async (signal: NodeJS.Signals): Promise<void> => {
    if (isOver()) return;
    const gone = once(child, 'exit');
    child.kill(signal);
    await gone;
  };
  const job: JobApp = {
    process: child,
    instance: `${hostname().slice(0, 40)}:${child.pid}`,
    runs: [],
    skips: [],
    logs: [],
    stop: () => end('SIGTERM'),
    kill: () => end('SIGKILL'),
  };
  closeLater({ close: () => end('SIGKILL') });
  let isReady = false;
  child.on('message', (message: Message) => {
    if (message.kind === 'run') job.runs.push(message);
    else if (message.kind === 'skipped') job.skips.push(message);
    else if (message.kind === 'ready') isReady = true;
    else if (!OF_NEST.includes(message.context)) job.logs.push(`${message.level} [${message.context}] ${message.text}`);
  });
  await eventually(() => isReady || isOver(), { timeoutMs: 60_000, message: 'The process with the job did not start' });
  if (!isReady) throw new Error(`The process with the job ended at its start: ${child.exitCode ?? child.signalCode}.`);
  return job;
}
