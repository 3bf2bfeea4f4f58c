// Builds dist/esm and dist/cjs; prints nothing unless it fails.
import { execFile } from 'node:child_process';
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { promisify } from 'node:util';
import { root } from './checks.mjs';
import { writeLua } from './lua.mjs';

// Four times faster than the JavaScript compiler, which the Nest CLI would run.
const tsc = join(root, 'node_modules', 'typescript-7', 'bin', 'tsc');
const compile = (project) => promisify(execFile)(process.execPath, [tsc, '-p', project], { cwd: root });

writeLua();
rmSync(join(root, 'dist'), { recursive: true, force: true });
try {
  await Promise.all(['tsconfig.build.json', 'tsconfig.cjs.json'].map(compile));
  // Without this file, Node takes the files for ES modules, because of the "type" of the package.
  writeFileSync(join(root, 'dist', 'cjs', 'package.json'), '{"type":"commonjs"}\n');
} catch (error) {
  // Both builds compile the same sources, so the second would report the same errors.
  console.error(error.stdout || error.message);
  process.exitCode = 1;
}
