// Runs commands within a limit of time.
import { spawn } from 'node:child_process';
import { setPriority } from 'node:os';
import process from 'node:process';

/** How long a command that has reached its limit may take to end. */
const END_WITHIN_MS = 10_000;
/** How long the output of a command may stay open after its end: by a process that it started, say. */
const OPEN_AT_MOST_MS = 1_000;

/** The process groups that run, by the id of their first process. */
const groups = new Set();

function signalGroup(pid, signal) {
  try {
    process.kill(-pid, signal);
  } catch (error) {
    // It has ended.
    if (!['ESRCH', 'EPERM'].includes(error.code)) throw error;
  }
}

/** Has signals end this process and all commands: their process groups do not receive Ctrl-C, nor the end of a terminal. */
export function endOnSignals() {
  const codes = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 };
  for (const [signal, code] of Object.entries(codes)) {
    process.once(signal, () => {
      for (const pid of groups) signalGroup(pid, 'SIGTERM');
      process.exit(code);
    });
  }
}

/**
 * Runs a command in its own process group, which ends at the limit, in milliseconds, and with the command. `env` has all of its
 * variables; `out` gets the output, which goes to that of this process otherwise. `priority` is that of the operating system.
 * @param {string} command
 * @param {readonly string[]} args
 * @param {{ cwd: string, limitMs: number, env: NodeJS.ProcessEnv, out?: Buffer[], priority?: number }} options
 * @returns {Promise<number | null>} The exit code; null if a signal or the limit ended the command.
 */
export function follow(command, args, { cwd, limitMs, env, out, priority = 0 }) {
  return new Promise((resolve) => {
    const output = out ? 'pipe' : 'inherit';
    const child = spawn(command, args, { cwd, env, stdio: ['ignore', output, output], detached: true });
    for (const stream of out ? [child.stdout, child.stderr] : []) stream.on('data', (data) => out.push(data));
    child.once('error', (error) => {
      console.error(error.message);
      resolve(127);
    });
    const { pid } = child;
    if (pid === undefined) return;
    groups.add(pid);
    if (priority !== 0) setPriority(pid, priority);
    let isLate = false;
    const endAfter = (ms, signal) => timers.push(setTimeout(signalGroup, ms, pid, signal));
    const timers = [setTimeout(() => (isLate = true), limitMs)];
    endAfter(limitMs, 'SIGTERM');
    endAfter(limitMs + END_WITHIN_MS, 'SIGKILL');
    child.once('exit', () => endAfter(OPEN_AT_MOST_MS, 'SIGKILL'));
    child.once('close', (code) => {
      for (const timer of timers) clearTimeout(timer);
      signalGroup(pid, 'SIGKILL');
      groups.delete(pid);
      resolve(isLate ? null : code);
    });
  });
}
