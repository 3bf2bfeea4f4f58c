// Runs every check of the project, which is what `npm test` means; the last line sums up.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';
import { checkExports } from './api-exports.mjs';
import { runCompatibility } from './compatibility.mjs';
import { checkDocuments } from './docs-check.mjs';
import { checkPackage } from './package-check.mjs';
import { ensureRedisServer } from './redis.mjs';
import { runTypeTests } from './type-tests.mjs';

/** @typedef {{ passed: number, failed: number, skipped?: number }} Counts */

const root = dirname(dirname(fileURLToPath(import.meta.url)));

/** A step that hangs (a test that left something open) fails instead of stopping everything. */
const STEP_LIMIT_MS = 900_000;

/** The same tests, on one Redis and on other topologies (jest.config.mjs). */
const TOPOLOGIES = ['memory', 'secured', 'sentinel', 'cluster', 'quorum', 'quorum-degraded'];
const CONTRACTS = ['contract', ...TOPOLOGIES.map((topology) => `contract-${topology}`)];

/** In their order. `needs` names the steps without which one makes no sense. */
const steps = [
  { name: 'redis', title: 'Redis server', run: () => counted(Boolean(ensureRedisServer())) },
  { name: 'build', title: 'Build', run: () => npm('build') },
  { name: 'lint', title: 'Lint', run: () => npm('lint') },
  { name: 'types', title: 'Type check', needs: ['build'], run: () => npm('typecheck') },
  { name: 'type-tests', title: 'Type tests', run: runTypeTests },
  {
    name: 'tests',
    title: 'Tests',
    needs: ['redis'],
    run: () => jest(['architecture', 'unit', 'scripts', 'nest'], '--maxWorkers=2'),
  },
  {
    name: 'contract',
    title: 'The contract on every topology',
    needs: ['redis', 'build'],
    // More workers than cores: these tests wait more than they compute.
    run: () => jest(CONTRACTS, '--maxWorkers=5'),
  },
  {
    name: 'faults',
    title: 'Faults',
    needs: ['redis', 'build'],
    run: () => jest(['faults'], '--maxWorkers=5'),
  },
  {
    name: 'sample-app',
    title: 'Build of the sample app',
    needs: ['build'],
    run: () => npm('build', '-w', 'sample-app'),
  },
  {
    name: 'e2e',
    title: 'Tests of the sample app',
    needs: ['redis', 'sample-app'],
    run: () => jest(['e2e'], '--runInBand'),
  },
  { name: 'package', title: 'Package', needs: ['build'], run: () => checkPackage({ built: true }) },
  { name: 'exports', title: 'Exports of both builds', needs: ['build'], run: checkExports },
  { name: 'docs', title: 'Documents', needs: ['build'], run: checkDocuments },
  {
    name: 'compatibility',
    title: 'The package in other apps',
    needs: ['redis', 'build'],
    run: () => runCompatibility(),
  },
];

/** @returns {Counts} */
function counted(ok) {
  return ok ? { passed: 1, failed: 0 } : { passed: 0, failed: 1 };
}

function runNpm(...args) {
  const stdio = ['ignore', 'inherit', 'inherit'];
  return spawnSync('npm', ['run', '--silent', ...args], { cwd: root, stdio, timeout: STEP_LIMIT_MS }).status;
}

function npm(...args) {
  return counted(runNpm(...args) === 0);
}

/** @returns {Counts} */
function jest(projects, ...flags) {
  const folder = mkdtempSync(join(tmpdir(), 'test-results-'));
  const file = join(folder, 'results.json');
  try {
    const status = runNpm(
      'test:jest',
      '--',
      '--selectProjects',
      ...projects,
      '--json',
      `--outputFile=${file}`,
      ...flags,
    );
    return jestCounts(status, existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : undefined);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function jestCounts(status, results) {
  const passed = results?.numPassedTests ?? 0;
  const skipped = (results?.numPendingTests ?? 0) + (results?.numTodoTests ?? 0);
  // A file that does not load has no failed tests, and neither has a failed set-up.
  const failed = (results?.numFailedTests ?? 0) + (results?.numRuntimeErrorTestSuites ?? 0);
  return { passed, skipped, failed: failed === 0 && status !== 0 ? 1 : failed };
}

/** @returns {Promise<Counts>} */
async function runStep({ title, run }, missing) {
  console.log(`\n=== ${title}`);
  if (missing.length > 0) {
    console.log(`=== ${title}: not run, since it needs ${missing.join(' and ')}`);
    return { passed: 0, failed: 0, skipped: 1 };
  }
  const start = performance.now();
  const counts = await attempt(run);
  const seconds = ((performance.now() - start) / 1000).toFixed(1);
  console.log(`=== ${title}: ${counts.failed === 0 ? 'ok' : 'FAILED'} in ${seconds} s`);
  return counts;
}

async function attempt(run) {
  try {
    return await run();
  } catch (error) {
    console.error(error.message);
    return counted(false);
  }
}

const total = { passed: 0, failed: 0, skipped: 0 };
const broken = new Set();
for (const step of steps) {
  const missing = (step.needs ?? []).filter((name) => broken.has(name));
  const { passed, failed, skipped = 0 } = await runStep(step, missing);
  total.passed += passed;
  total.failed += failed;
  total.skipped += skipped;
  if (failed > 0 || missing.length > 0) broken.add(step.name);
}
if (broken.size > 0) console.log(`\nFailed or not run: ${[...broken].join(', ')}`);
console.log(`\n${total.passed} passed, ${total.failed} failed, ${total.skipped} skipped`);
process.exitCode = total.failed > 0 ? 1 : 0;
