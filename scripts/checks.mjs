// What scripts share: the path of the repository, temporary folders, and the report of checks.
import { mkdtempSync, readFileSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';

export const root = join(import.meta.dirname, '..');

/** Reads a JSON file whose path has these parts. */
export const readJson = (...path) => JSON.parse(readFileSync(join(...path), 'utf8'));

export const manifest = readJson(root, 'package.json');

/** Whether the module of this URL is the script that was started, and was not imported. */
export const isStarted = (url) => Boolean(process.argv[1]) && realpathSync(process.argv[1]) === fileURLToPath(url);

/** Runs `work` with a temporary folder, which is removed afterwards. */
export async function withFolder(work) {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'nestjs-redis-lock-')));
  try {
    return await work(folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Prints the title of a check, and its flaws, if any; returns whether there are none. */
export function report(title, flaws = []) {
  console.log(`${flaws.length === 0 ? 'ok    ' : 'FAILED'} ${title}`);
  for (const flaw of flaws) console.log(`  ${flaw}`);
  return flaws.length === 0;
}

/** Counts the results of checks: true if a check passed. */
export function countsOf(results) {
  const passed = results.filter(Boolean).length;
  return { passed, failed: results.length - passed };
}

/** Runs the checks of a script and prints how many of them passed. */
export async function runChecks(check) {
  const counts = Object.entries(await check());
  console.log(counts.map(([name, count]) => `${count} ${name}`).join(', '));
  process.exitCode = Object.fromEntries(counts).failed > 0 ? 1 : 0;
}
