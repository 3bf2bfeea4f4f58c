import { readFileSync } from 'node:fs';
import { systemClock } from '../core/clock.js';
import { LockConfigurationError, LockError, LockKeyError } from '../core/lock.errors.js';
import { doctor } from './doctor/doctor.js';
import { history, inspect, jobs, ls, release, runJob, watch } from './commands.js';
import { errorText, jsonLine } from './output/text.js';
import { type Terminal } from './output/terminal.js';
import { type Environment, isOn, readArguments, settingsOf, variableOf } from './settings.js';
import { openLocks, type Session } from './session.js';
import { type CommandName, EXIT, type ExitCode, HELP, UsageError } from './settings.js';

/** The functions of the commands; `word` is set where the command needs one. */
const RUN: Readonly<Record<CommandName, (session: Session, word: string) => Promise<ExitCode>>> = {
  ls,
  inspect,
  watch,
  history,
  jobs,
  run: runJob,
  release,
  doctor,
};

/** Runs the tool, and prints the result. Never rejects. */
export async function run(args: readonly string[], env: Environment, terminal: Terminal): Promise<ExitCode> {
  try {
    const call = readArguments(args, env);
    if (call === 'help') return print(terminal, HELP);
    if (call === 'version') return print(terminal, `${versionOfPackage()}\n`);
    const settings = settingsOf(call, env);
    const locks = openLocks(settings);
    // Without this, the process could exit while it waits for a connection.
    const letGo = systemClock.keepAlive?.();
    try {
      return await RUN[call.command]({ settings, terminal, locks }, call.word as string);
    } finally {
      await locks.close();
      letGo?.();
    }
  } catch (error) {
    return fail(error, args, env, terminal);
  }
}

function print(terminal: Terminal, text: string): ExitCode {
  terminal.write(text);
  return EXIT.ok;
}

function fail(error: unknown, args: readonly string[], env: Environment, terminal: Terminal): ExitCode {
  const exitCode = codeOf(error);
  const text = exitCode === EXIT.bug && error instanceof Error ? String(error.stack) : errorText(error);
  if (isJson(args, env)) terminal.write(jsonLine({ error: text, exitCode }));
  terminal.complain(`nestjs-redis-lock: ${text}`);
  return exitCode;
}

function codeOf(error: unknown): ExitCode {
  const isUsage = [UsageError, LockKeyError, LockConfigurationError].some((type) => error instanceof type);
  if (isUsage) return EXIT.usage;
  return error instanceof LockError ? EXIT.redis : EXIT.bug;
}

/** Whether a script reads the output; the options themselves may be wrong. */
function isJson(args: readonly string[], env: Environment): boolean {
  return args.includes('--json') || isOn(env[variableOf('json')]);
}

function versionOfPackage(): string {
  const manifest = readFileSync(new URL('../../../package.json', import.meta.url), 'utf8');
  return (JSON.parse(manifest) as { version: string }).version;
}
