// The programs that tests need in addition to Node. Each is found on this machine, or installed.
import { spawnSync } from 'node:child_process';
import { accessSync, constants, statSync } from 'node:fs';
import { platform } from 'node:os';
import { delimiter, join } from 'node:path';
import process from 'node:process';

/** Returns the path of a Redis server. */
export const ensureRedisServer = () =>
  ensureProgram(['redis-server', 'valkey-server'], { apt: 'redis-server', brew: 'redis' }, ', or set REDIS_URL');

/** Returns the path of a browser for the tests of the board. */
export const ensureChromium = () =>
  ensureProgram(['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable'], { apt: 'chromium' });

/** Returns the path of the first of these programs that exists, or installs a package of `apt-get` or Homebrew. */
function ensureProgram(names, packages, otherwise = '') {
  let found = onPath(...names);
  if (found) return found;
  for (const [command, ...args] of installCommands(packages)) {
    // All output goes to stderr, because a caller may parse stdout. If `update` fails, the old lists may still work.
    spawnSync(command, args, { stdio: ['ignore', 2, 2] });
    found = onPath(...names);
    if (found) return found;
  }
  const how = `\`apt-get install ${packages.apt}\`${packages.brew ? ` or \`brew install ${packages.brew}\`` : ''}`;
  throw new Error(`No ${names.join(', ')} on PATH, and none could be installed. Install one (${how})${otherwise}.`);
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

/**
 * RUNLEVEL=1 keeps a Debian package from starting its service. Two `apt-get update` at once fail, so each waits for its turn; the
 * kernel ends the turn of a process that dies.
 */
function installCommands({ apt, brew }) {
  if (brew && platform() === 'darwin' && onPath('brew')) return [['brew', 'install', brew]];
  const sudo = rootPrefix();
  if (!onPath('apt-get') || !sudo) return [];
  const alone = ['flock', '--close', '--wait', '300', '/var/lib/dpkg'];
  const command = [...alone, ...sudo, 'env', 'RUNLEVEL=1', 'DEBIAN_FRONTEND=noninteractive', 'apt-get'];
  const install = ['install', '-o', 'DPkg::Lock::Timeout=120', '-y', '--no-install-recommends', apt];
  return [
    [...command, 'update'],
    [...command, ...install],
  ];
}

function rootPrefix() {
  if (process.getuid?.() === 0) return [];
  return onPath('sudo') && spawnSync('sudo', ['-n', 'true']).status === 0 ? ['sudo', '-n'] : undefined;
}
