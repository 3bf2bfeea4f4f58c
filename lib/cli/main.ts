#!/usr/bin/env node
import process from 'node:process';
import { Terminal } from './output/terminal.js';
import { run } from './run.js';

const end = new AbortController();
const { stdin: input, stdout: output, stderr: errors } = process;

/** The reader has closed the output: `| head`. */
const onOutputError = (error: NodeJS.ErrnoException): void => {
  if (error.code !== 'EPIPE') throw error;
  end.abort();
};

output.on('error', onOutputError);
errors.on('error', onOutputError);
const terminal = new Terminal({ input, output, errors }, process.env, end);
const exitCode = await run(process.argv.slice(2), process.env, terminal);
// A pipe needs time; a connection that does not end must not keep the process alive.
for (const stream of [output, errors]) {
  if (!stream.destroyed && !stream.closed) await new Promise<void>((resolve) => void stream.write('', () => resolve()));
}
process.exit(exitCode);
