import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { Terminal } from '../../../lib/cli/output/terminal.js';
import { run } from '../../../lib/cli/run.js';
import { closeLater } from '../../support/apps/lock-app.js';
import { buildPackage } from '../../support/processes/child-app.js';

const BIN = join(process.cwd(), 'dist', 'esm', 'cli', 'main.js');

interface Run {
  readonly env?: Readonly<Record<string, string>>;
  readonly input?: string;
  /** Whether its output is a terminal. */
  readonly isScreen?: boolean;
}

interface Screen {
  readonly columns?: number;
  readonly rows?: number;
  readonly env?: Readonly<Record<string, string>>;
}

export interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** The streams of a tool that runs in this process, and what it has printed. `more` is what a terminal has. */
function streams(env: Readonly<Record<string, string>>, more: object) {
  const end = new AbortController();
  const [input, output, errors] = [0, 1, 2].map(() => Object.assign(new PassThrough(), more)) as [
    PassThrough,
    PassThrough,
    PassThrough,
  ];
  const text = { stdout: '', stderr: '' };
  output.setEncoding('utf8').on('data', (data: string) => (text.stdout += data));
  errors.setEncoding('utf8').on('data', (data: string) => (text.stderr += data));
  const terminal = new Terminal({ input, output, errors }, env, end);
  return { input, text, terminal, end: () => end.abort() };
}

/** A terminal with a number of columns, the user's input, and what is printed on it. The tool runs in this process. */
export function screen({ columns = 200, rows = 24, env = {} }: Screen = {}) {
  const { input, text, terminal, end } = streams(env, { isTTY: true, columns, rows });
  return {
    text,
    end,
    type: (keys: string) => void input.write(keys),
    run: (...args: string[]) => run(args, env, terminal),
  };
}

/** Starts the tool in this process and without a terminal; its environment is `env` alone. `end` does what Ctrl-C does. */
export function startCli(args: readonly string[], { env = {}, input: typed = '' }: Run = {}) {
  const { input, text, terminal, end } = streams(env, {});
  input.end(typed);
  const ended = run(args, env, terminal).then((code): Ended => ({ code, ...text }));
  return { text, end, ended };
}

/** Runs the tool to its end, in this process and without a terminal. */
export const cli = (args: readonly string[], given?: Run): Promise<Ended> => startCli(args, given).ended;

/**
 * Starts the tool of the built package as a process, which is killed with the test. A start is slow, so most tests use `cli`.
 * The environment has no settings but those of the test.
 */
export async function startProcess(args: readonly string[], { env = {}, input = '', isScreen = false }: Run = {}) {
  await buildPackage();
  const own = Object.entries(process.env).filter(([name]) => !/^(REDIS_|NO_COLOR|FORCE_COLOR)/.test(name));
  const before = isScreen ? ['--import', 'data:text/javascript,process.stdout.isTTY = true'] : [];
  const child = spawn(process.execPath, [...before, BIN, ...args], { env: { ...Object.fromEntries(own), ...env } });
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
