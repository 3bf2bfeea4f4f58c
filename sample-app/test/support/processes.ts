import { type ChildProcess } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** The folder of the sample app; the tests run in the root of the repository. */
export const sampleApp = join(process.cwd(), 'sample-app');

const cleanUps: (() => unknown)[] = [];

/** Adds work to `cleanUp`. */
export const later = (work: () => unknown): void => void cleanUps.push(work);

/** Undoes what a test did, in reverse order. */
export async function cleanUp(): Promise<void> {
  for (const work of cleanUps.splice(0).toReversed()) await work();
}

/** Makes a folder that `cleanUp` removes with its contents. */
export function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'sample-app-test-'));
  later(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

export const hasEnded = (child: ChildProcess): boolean => child.exitCode !== null || child.signalCode !== null;

/** Whether a process with this id is running. */
export function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

/** Kills a process; does nothing if it has ended. */
export async function kill(child: ChildProcess): Promise<void> {
  if (hasEnded(child)) return;
  const ended = new Promise((resolve) => child.once('exit', resolve));
  child.kill('SIGKILL');
  await ended;
}
