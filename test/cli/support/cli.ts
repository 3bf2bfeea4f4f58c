import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { closeLater } from '../../support/apps/lock-app.js';
import { buildPackage } from '../../support/processes/child-app.js';

const BIN = join(process.cwd(), 'dist', 'esm', 'cli', 'main.js');

interface Run {
  readonly env?: Readonly<Record<string, string>>;
  readonly input?: string;
}

export interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Starts the tool as a process, which is killed with the test. The environment has no settings but those of the test. */
export async function startCli(args: readonly string[], { env = {}, input = '' }: Run = {}) {
  await buildPackage();
  const own = Object.entries(process.env).filter(([name]) => !/^(REDIS_|NO_COLOR|FORCE_COLOR)/.test(name));
  const child = spawn(process.execPath, [BIN, ...args], { env: { ...Object.fromEntries(own), ...env } });
  const text = { stdout: '', stderr: '' };
  for (const name of ['stdout', 'stderr'] as const) {
    child[name].setEncoding('utf8').on('data', (data: string) => {
      text[name] += data;
    });
  }
  child.stdin.on('error', () => undefined);
  child.stdin.end(input);
  const closed = once(child, 'close') as Promise<[code: number | null]>;
  closeLater({
    close: async () => {
      child.kill('SIGKILL');
      await closed;
    },
  });
  const ended = async (): Promise<Ended> => {
    const [code] = await closed;
    return { code, ...text };
  };
  return { child, text, ended };
}

/** Runs the tool to its end. */
export const cli = async (args: readonly string[], run: Run = {}): Promise<Ended> =>
  (await startCli(args, run)).ended();
