// Finds a program of this machine, or installs it.
import { spawnSync } from 'node:child_process';
import { accessSync, constants, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { platform, tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import process from 'node:process';

const INSTALL_WITHIN_MS = 300_000;

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
  return program.find() ?? alone(() => program.find() ?? install(program));
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
    // All output goes to stderr, because a caller may parse stdout. If `update` fails, the old lists may still do.
    spawnSync(command[0], command.slice(1), { stdio: ['ignore', 2, 2] });
  }
  const found = program.find();
  if (found) return found;
  throw new Error(program.missing);
}

/** RUNLEVEL=1 keeps a Debian package from starting its service. */
function installCommands({ apt, brew }) {
  if (brew && platform() === 'darwin' && onPath('brew')) return [['brew', 'install', brew]];
  const sudo = rootPrefix();
  if (!onPath('apt-get') || !sudo) return undefined;
  const command = [...sudo, 'env', 'RUNLEVEL=1', 'DEBIAN_FRONTEND=noninteractive', 'apt-get'];
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

/** Runs the work in one process of this machine at a time: two `apt-get update` at once fail. */
function alone(work) {
  const lock = join(tmpdir(), 'nestjs-redis-lock-install.pid');
  const deadline = Date.now() + INSTALL_WITHIN_MS;
  while (!takeLock(lock)) {
    if (Date.now() > deadline) throw new Error(`Another process has been installing for too long, see ${lock}`);
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 200);
  }
  try {
    return work();
  } finally {
    rmSync(lock, { force: true });
  }
}

function takeLock(lock) {
  try {
    writeFileSync(lock, String(process.pid), { flag: 'wx' });
    return true;
  } catch (error) {
    if (error.code !== 'EEXIST') throw error;
    if (isAbandoned(lock)) rmSync(lock, { force: true });
    return false;
  }
}

function isAbandoned(lock) {
  try {
    const pid = Number(readFileSync(lock, 'utf8'));
    // Its owner may have created it, and not written to it yet.
    if (!pid) return Date.now() - statSync(lock).mtimeMs > 5_000;
    process.kill(pid, 0);
    return false;
  } catch (error) {
    return error.code === 'ESRCH';
  }
}
