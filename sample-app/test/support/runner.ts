import { type ChildProcess, spawn } from 'node:child_process';
import { join } from 'node:path';
import { stripVTControlCharacters } from 'node:util';
import { eventuallyPasses } from '../../../test/support/waiting/eventually.js';
import { hasEnded, isRunning, kill, later, sampleApp, temporaryFolder } from './processes.js';

/** The runner, in a separate process. */
export interface Run {
  readonly child: ChildProcess;
  /** Where it makes its own folder. */
  readonly folder: string;
  readonly output: () => string;
  /** The instances that it started. */
  readonly pids: () => number[];
  readonly ended: Promise<number | null>;
}

/** A process of a busy machine stands still for longer than the lease of the sample app. */
const BUSY_LEASE_MS = '10000';
/** So does one that starts, when the first fire comes. */
const LATE_ANSWER = /\[Scheduler\].*LockStoreError: The lock "lottery"[^\n]*Redis gave no answer[^]*?\n\[\w\] \}\n/g;

/** Runs the built runner as `npm start` does, in a separate process group, as a shell would. */
export function run(args: readonly string[], env: NodeJS.ProcessEnv = {}): Run {
  const folder = temporaryFolder();
  const child = spawn(process.execPath, [join(sampleApp, 'dist', 'run-instances.js'), ...args], {
    // A runner that is killed cannot remove its folder.
    env: { ...process.env, TMPDIR: folder, LOTTERY_LEASE_MS: BUSY_LEASE_MS, ...env },
    detached: true,
  });
  later(() => kill(child));
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (data) => (output += String(data)));
  const pids = () => [...output.matchAll(/started with the pid (\d+)/g)].map(([, pid]) => Number(pid));
  const ended = new Promise<number | null>((resolve) => child.once('close', (code) => resolve(code)));
  return { child, folder, output: () => output, pids, ended };
}

/** Expects that the runner and its instances have ended. */
export async function expectNothingLeft({ child, pids, output }: Run): Promise<void> {
  expect(hasEnded(child)).toBe(true);
  expect(pids()).toHaveLength(3);
  await eventuallyPasses(() => expect(pids().filter(isRunning)).toEqual([]), { timeoutMs: 20_000 });
  const told = stripVTControlCharacters(output())
    .replaceAll(LATE_ANSWER, '\n')
    .replaceAll(/ERROR +\n/g, '');
  expect(told).not.toMatch(/ERROR|Error:/);
}

/** Waits until the runner has printed a match; a failure shows what it printed instead. */
export const printed = ({ output }: Run, pattern: RegExp): Promise<void> =>
  eventuallyPasses(() => expect(output()).toMatch(pattern), { timeoutMs: 40_000 });

/** What the runner prints when all instances run. */
export const allReady = /(Ready at[^]*){3}/;
