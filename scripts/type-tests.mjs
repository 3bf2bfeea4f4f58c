// Compiles test/types with every TypeScript that users may have, with and without `noUncheckedIndexedAccess`: the types of the
// decorators must refuse and accept the same. With `--own`, it uses only the TypeScript that compiles this package.
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';
import { countsOf, runIfStarted } from './checks.mjs';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const PROJECT = join('test', 'types', 'tsconfig.json');
const OWN = 'typescript';
const COMPILERS = process.argv.includes('--own') ? [OWN] : ['typescript-5.9', OWN, 'typescript-7'];
const OPTIONS = [[], ['--noUncheckedIndexedAccess', 'false']];

/** Prints one line per compilation; returns `{ passed, failed }`. */
export function runTypeTests() {
  return countsOf(COMPILERS.flatMap((compiler) => OPTIONS.map((options) => compile(compiler, options))));
}

function compile(compiler, options) {
  const folder = join(root, 'node_modules', compiler);
  const args = [join(folder, 'bin', 'tsc'), '--noEmit', '--pretty', 'false', '-p', PROJECT, ...options];
  const { status, stdout, stderr } = spawnSync(process.execPath, args, { cwd: root, encoding: 'utf8' });
  const { version } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
  console.log(`${status === 0 ? 'ok    ' : 'FAILED'} TypeScript ${[version, ...options].join(' ')}`);
  if (status !== 0) console.log(stdout + stderr);
  return status === 0;
}

await runIfStarted(import.meta.url, runTypeTests);
