// Loads both builds of each entry in package.json: the ES module and CommonJS must export the same names. Needs a build.
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { countsOf, manifest, report, root, runChecks } from './checks.mjs';

const require = createRequire(import.meta.url);

async function checkEntry([name, target]) {
  const esm = Object.keys(await import(join(root, target.import.default)));
  const cjs = Object.keys(require(join(root, target.require.default)));
  return report(`the builds of ${name} export the same names`, [
    ...esm.filter((key) => !cjs.includes(key)).map((key) => `${key} is exported by the ES module only`),
    ...cjs.filter((key) => !esm.includes(key)).map((key) => `${key} is exported by CommonJS only`),
    ...(esm.length === 0 ? ['the ES module exports nothing'] : []),
  ]);
}

const entries = Object.entries(manifest.exports).filter(([, target]) => typeof target === 'object');
await runChecks(async () => countsOf(await Promise.all(entries.map(checkEntry))));
