import { PassThrough } from 'node:stream';
import { Terminal } from '../../../lib/cli/output/terminal.js';
import { run } from '../../../lib/cli/run.js';
import { type ExitCode } from '../../../lib/cli/usage.js';

interface Options {
  readonly columns?: number;
  readonly rows?: number;
  readonly env?: Readonly<Record<string, string>>;
}

/** A terminal of so many columns, and what is printed on it. */
export function screen({ columns = 200, rows = 24, env = {} }: Options = {}) {
  const end = new AbortController();
  const input = Object.assign(new PassThrough(), { isTTY: true });
  const output = Object.assign(new PassThrough(), { isTTY: true, columns, rows });
  const errors = Object.assign(new PassThrough(), { isTTY: true });
  const text = { output: '', errors: '' };
  output.on('data', (data: Buffer) => (text.output += data.toString()));
  errors.on('data', (data: Buffer) => (text.errors += data.toString()));
  const terminal = new Terminal({ input, output, errors }, env, end);
  return {
    text,
    end: () => end.abort(),
    type: (keys: string) => void input.write(keys),
    /** Runs the tool in this process. */
    run: (...args: string[]): Promise<ExitCode> => run(args, env, terminal),
  };
}
