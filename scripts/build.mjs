// Builds dist/esm and dist/cjs; prints nothing unless it fails.
import { execFile } from 'node:child_process';
import { rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
// Four times as fast as the JavaScript compiler, which the Nest CLI would run.
const tsc = join(root, 'node_modules', 'typescript-7', 'bin', 'tsc');

/** Resolves to the compiler's output if it fails, otherwise to undefined. */
function compile(tsconfig) {
  return new Promise((resolve) => {
    execFile(process.execPath, [tsc, '-p', tsconfig], { cwd: root }, (error, stdout, stderr) =>
      resolve(error ? `${tsconfig}: ${stdout}${stderr || error.message}` : undefined),
    );
  });
}

rmSync(join(root, 'dist'), { recursive: true, force: true });
const failures = (await Promise.all(['tsconfig.build.json', 'tsconfig.cjs.json'].map(compile))).filter(Boolean);
if (failures.length > 0) {
  // Both builds compile the same sources, so the second would report the same errors.
  console.error(failures[0]);
  process.exitCode = 1;
} else {
  // Without this file, Node takes the files for ES modules, because the package's own "type" says so.
  writeFileSync(join(root, 'dist', 'cjs', 'package.json'), '{"type":"commonjs"}\n');
}
