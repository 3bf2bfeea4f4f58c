// Loads both builds of each entry in package.json: the ES module and CommonJS must export the same names. Needs a build.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { countsOf, runIfStarted } from './checks.mjs';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const require = createRequire(import.meta.url);

/** Prints one line for each entry; returns `{ passed, failed }`. */
export async function checkExports() {
  const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  const entries = Object.entries(manifest.exports).filter(([, target]) => typeof target === 'object');
  const results = [];
  for (const [name, target] of entries) results.push(await checkEntry(name, target));
  return countsOf(results);
}

async function checkEntry(name, target) {
  const esm = Object.keys(await import(pathToFileURL(join(root, target.import.default)).href));
  const cjs = Object.keys(require(join(root, target.require.default)));
  const differences = [
    ...esm.filter((key) => !cjs.includes(key)).map((key) => `  ${key} is exported by the ES module only`),
    ...cjs.filter((key) => !esm.includes(key)).map((key) => `  ${key} is exported by CommonJS only`),
    ...(esm.length === 0 ? ['  the ES module exports nothing'] : []),
  ];
  console.log(`${differences.length === 0 ? 'ok    ' : 'FAILED'} the builds of ${name} export the same names`);
  for (const line of differences) console.log(line);
  return differences.length === 0;
}

await runIfStarted(import.meta.url, checkExports);
