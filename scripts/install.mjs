// Finds a program of this machine, or installs it.
import { spawnSync } from 'node:child_process';
import { accessSync, constants, statSync } from 'node:fs';
import { platform } from 'node:os';
import { delimiter, join } from 'node:path';
import process from 'node:process';

const WAIT_AT_MOST_S = 300;

/**
 * A program, and where it comes from.
 * @typedef {object} Program
 * @property {() => string | undefined} find Returns its path.
 * @property {string} apt Its package for `apt-get`.
 * @property {string} [brew] Its package for Homebrew.
 * @property {string} missing What to tell if it is not there, and cannot be installed.
 */

/**
 * Returns the path of a program, or installs it if the system allows that.
 * @param {Program} program
 */
export function ensureProgram(program) {
  return program.find() ?? install(program);
}

/** Returns the path of the first of these programs that is on PATH. */
export function onPath(...programs) {
  const folders = (process.env.PATH ?? '').split(delimiter).filter(Boolean);
  return programs.flatMap((program) => folders.map((folder) => join(folder, program))).find(isExecutable);
}

function isExecutable(path) {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}

function install(program) {
  for (const command of installCommands(program) ?? []) {
    // Another process may have installed it while this one waited for its turn.
    if (program.find()) break;
    // All output goes to stderr, because a caller may parse stdout. If `update` fails, the old lists may still do.
    spawnSync(command[0], command.slice(1), { stdio: ['ignore', 2, 2] });
  }
  const found = program.find();
  if (found) return found;
  throw new Error(program.missing);
}

/**
 * RUNLEVEL=1 keeps a Debian package from starting its service. Two `apt-get update` at once fail, so each waits for its turn; the
 * kernel ends the turn of a process that dies.
 */
function installCommands({ apt, brew }) {
  if (brew && platform() === 'darwin' && onPath('brew')) return [['brew', 'install', brew]];
  const sudo = rootPrefix();
  if (!onPath('apt-get') || !sudo) return undefined;
  const alone = ['flock', '--close', '--wait', String(WAIT_AT_MOST_S), '/var/lib/dpkg'];
  const command = [...alone, ...sudo, 'env', 'RUNLEVEL=1', 'DEBIAN_FRONTEND=noninteractive', 'apt-get'];
  const options = ['-o', 'DPkg::Lock::Timeout=120', '-y', '--no-install-recommends'];
  return [
    [...command, 'update'],
    [...command, 'install', ...options, apt],
  ];
}

function rootPrefix() {
  if (process.getuid?.() === 0) return [];
  return onPath('sudo') && spawnSync('sudo', ['-n', 'true']).status === 0 ? ['sudo', '-n'] : undefined;
}
