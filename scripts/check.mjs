// Runs the checks of the project; the last line sums them up. `npm test` tests every promise, and `npm run test:all` (`--all`)
// repeats the tests: on other topologies, for longer, in other apps.
import { randomInt } from 'node:crypto';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';
import { endOnSignals, follow } from './follow.mjs';
import { ensureChromium, ensureRedisServer } from './programs.mjs';

/** @typedef {{ passed: number, failed: number, skipped?: number }} Counts */

const root = dirname(dirname(fileURLToPath(import.meta.url)));

/** A step that hangs (a test left something open) fails after this time, and is ended with all that it started. */
const STEP_LIMIT_MS = 1_800_000;

/** The steps that both commands run first. */
const BUILT = [
  { name: 'redis', title: 'Redis server', run: () => counted(Boolean(ensureRedisServer())) },
  { name: 'build', title: 'Build', run: () => npm('build') },
];

/** These compute, and do not mind a busy machine. */
const COMPUTING = ['architecture', 'unit', 'scripts', 'fuzz'];
const CODE = ['clients', 'chaos', 'nest', 'cli'];
/** On these topologies, `npm test` runs the part of the contract that differs there, and `npm run test:all` runs the rest. */
const SHARED = ['contract-memory', 'contract-cluster', 'contract-quorum'];
/** The contract on the connections of other libraries than ioredis, and what such connections do when something breaks. */
const OTHER_LIBRARIES = ['contract-iovalkey', 'contract-node-redis', 'faults-iovalkey'];
/** These start clusters, quorums and sentinels, too. */
const NODE_REDIS = ['contract-node-redis-cluster', 'contract-node-redis-sentinel', 'faults-node-redis'];
const FURTHER = ['contract-secured', 'contract-sentinel', 'contract-quorum-degraded'];
/** The tests that use random input. */
const RANDOM = '(scripts/model|contract/fuzz|uniform-wins|quorum/random).*\\.spec\\.ts$';
/** So many files may be judged by another run, and they must pass it so many times. */
const UNSTABLE_FILES = 3;
const RUNS_ALONE = 3;
const LONG = { FUZZ_RUNS: '2000', FUZZ_ROUNDS: '150', FIRE_ROUNDS: '400', QUORUM_MS: '30000' };
/** As many as a small build server has cores. One would run in this process, and keep the modules of all files in memory. */
const AS_MANY = '--maxWorkers=2';
/** More than there are cores: the tests of the contract and of faults wait more than they compute. */
const WORKERS = '--maxWorkers=5';
/** Nodes of clusters and quorums compute, too. */
const FEWER_WORKERS = '--maxWorkers=3';

/** How long the runs with a seed take. */
const SIMULATED_SECONDS = 60;
const SIMULATED_AGAIN_SECONDS = 30;
const CHAOS_SECONDS = 60;

/** A run with a seed. Its command is printed, so that it can be repeated. */
const seeded = (name, title, ...args) => ({
  name: title,
  title,
  needs: ['redis', 'build'],
  alone: name === 'chaos',
  run: () => {
    console.log(`npm run ${name} -- ${args.join(' ')}`);
    return npm(name, ['--', ...args]);
  },
});

/**
 * `needs` names the steps that must have passed. A step with `beside` runs at the same time as the others, one such step after the
 * other. A step with `alone` runs when these have ended: its tests watch leases and time limits, and a busy machine breaks them.
 */
const TEST = [
  {
    name: 'sample-app',
    title: 'Build of the sample app',
    needs: ['build'],
    run: () => npm('build', ['-w', 'sample-app']),
  },
  { name: 'browser', title: 'Browser', run: () => counted(Boolean(ensureChromium())) },
  { name: 'lint', title: 'Lint', beside: true, run: (out) => npm('lint', [], out) },
  { name: 'types', title: 'Type check', beside: true, needs: ['build'], run: (out) => npm('typecheck', [], out) },
  { name: 'type-tests', title: 'Type tests', beside: true, run: (out) => script('type-tests.mjs', ['--own'], out) },
  {
    name: 'package',
    title: 'Package',
    beside: true,
    needs: ['build'],
    run: (out) => script('package-check.mjs', ['--built'], out),
  },
  {
    name: 'exports',
    title: 'Exports of both builds',
    beside: true,
    needs: ['build'],
    run: (out) => script('api-exports.mjs', [], out),
  },
  { name: 'docs', title: 'Documents', beside: true, needs: ['build'], run: (out) => script('docs-check.mjs', [], out) },
  {
    name: 'computing',
    title: 'Tests that compute',
    needs: ['redis', 'build'],
    run: () => jest(COMPUTING, { PART: 'first', FUZZ_RUNS: '200' }, AS_MANY),
  },
  {
    name: 'tests',
    title: 'Tests',
    needs: ['redis', 'build', 'sample-app'],
    alone: true,
    run: () =>
      timedJest(
        [...CODE, 'contract', ...SHARED, 'faults', 'e2e', 'examples'],
        { PART: 'first', FUZZ_RUNS: '200' },
        WORKERS,
      ),
  },
  {
    name: 'quiet',
    title: 'Tests that need a quiet machine',
    needs: ['redis', 'build'],
    alone: true,
    run: () => timedJest(['faults'], { PART: 'quiet' }, '--runInBand'),
  },
];

const REPEATS = [
  {
    name: 'type-tests',
    title: 'Type tests on every compiler',
    beside: true,
    run: (out) => script('type-tests.mjs', [], out),
  },
  // Installs tools of its own.
  { name: 'site', title: 'The docs site', beside: true, run: (out) => npm('docs', [], out) },
  {
    name: 'compatibility',
    title: 'The package in other apps',
    beside: true,
    needs: ['redis', 'build'],
    run: (out) => script('compatibility.mjs', [], out),
  },
  {
    name: 'mutants',
    title: 'The mutants, and what the simulation finds',
    needs: ['redis', 'build'],
    run: () => jest(['scripts', 'simulation'], { PART: 'again' }, AS_MANY),
  },
  {
    name: 'topologies',
    title: 'The contract on every topology',
    needs: ['redis', 'build'],
    alone: true,
    run: () => timedJest([...SHARED, ...FURTHER], { PART: 'again' }, FEWER_WORKERS),
  },
  {
    name: 'libraries',
    title: 'The contract and faults on other libraries of clients',
    needs: ['redis', 'build'],
    alone: true,
    run: () => timedJest(OTHER_LIBRARIES, {}, WORKERS),
  },
  {
    name: 'node-redis',
    title: 'All faults on node-redis, and the contract on its cluster and sentinels',
    needs: ['redis', 'build'],
    alone: true,
    run: () => timedJest(NODE_REDIS, { PART: 'again' }, WORKERS),
  },
  {
    name: 'quiet',
    title: 'Tests that need a quiet machine, on node-redis',
    needs: ['redis', 'build'],
    alone: true,
    run: () => timedJest(['faults-node-redis'], { PART: 'quiet' }, '--runInBand'),
  },
  {
    name: 'random',
    title: 'Random games, for longer',
    needs: ['redis', 'build'],
    alone: true,
    run: () =>
      jest(['scripts', 'contract', 'contract-cluster', 'faults'], LONG, WORKERS, `--testPathPatterns=${RANDOM}`),
  },
  seeded('simulate', 'Simulation of old seeds', '--seed=1', `--seconds=${SIMULATED_AGAIN_SECONDS}`),
  seeded('simulate', 'Simulation', `--seed=${randomInt(2, 1e9)}`, `--seconds=${SIMULATED_SECONDS}`),
  seeded('chaos', 'Chaos on one Redis', '--topology=single', `--seed=${randomInt(1e6)}`, `--seconds=${CHAOS_SECONDS}`),
  seeded('chaos', 'Chaos on a quorum', '--topology=quorum', `--seed=${randomInt(1e6)}`, `--seconds=${CHAOS_SECONDS}`),
  seeded('model', 'The formal model', '--seconds=60', `--seed=${randomInt(1e6)}`),
];

/** @returns {Counts} */
function counted(ok) {
  return ok ? { passed: 1, failed: 0 } : { passed: 0, failed: 1 };
}

/** Runs a child. Its output goes to that of this process, or into `out`. `env` replaces no variables that are set already. */
const runChild = (command, args, out, env) =>
  follow(command, args, { cwd: root, limitMs: STEP_LIMIT_MS, env: { ...env, ...process.env }, out });

const run = (name, args, out, env) => runChild('npm', ['run', '--silent', name, ...args], out, env);

async function npm(name, args = [], out) {
  return counted((await run(name, args, out)) === 0);
}

/** Runs a script whose last line counts its checks. */
async function script(name, args, out) {
  const status = await runChild(process.execPath, [join(root, 'scripts', name), ...args], out);
  const last = /(\d+) passed, (\d+) failed(?:, (\d+) skipped)?\s*$/.exec(Buffer.concat(out).toString());
  const [passed = 0, failed = 0, skipped = 0] = (last ?? []).slice(1).map((count) => Number(count ?? 0));
  return { passed, skipped, failed: failed === 0 && status !== 0 ? 1 : failed };
}

/** Runs tests. @returns {Promise<Counts>} */
async function jest(projects, env, ...flags) {
  return jestCounts(await jestResults(projects, env, flags));
}

/**
 * Runs tests that watch real time beside each other. A file that fails here and passes alone, three times over, counts as
 * unstable, and is named at the end: on a busy machine, a process can stand still for longer than a lease. More than a few
 * such files have another cause. Tests with random input have no second run, since it would have other input.
 * @returns {Promise<Counts>}
 */
async function timedJest(projects, env, ...flags) {
  const results = await jestResults(projects, env, flags);
  const counts = jestCounts(results);
  const files = failedFiles(results);
  if (files.length === 0 || files.length > UNSTABLE_FILES || files.some((file) => new RegExp(RANDOM).test(file)))
    return counts;
  for (let round = 1; round <= RUNS_ALONE; round += 1) {
    console.log(`\n=== Again, alone (${round} of ${RUNS_ALONE}): ${files.join(', ')}`);
    const again = jestCounts(await jestResults(projects, env, ['--runInBand', '--runTestsByPath', ...files]));
    if (again.failed > 0) return counts;
  }
  unstable.push(...files);
  return { ...counts, passed: counts.passed + counts.failed, failed: 0 };
}

async function jestResults(projects, env, flags) {
  const folder = mkdtempSync(join(tmpdir(), 'test-results-'));
  const file = join(folder, 'results.json');
  const args = ['--selectProjects', ...projects, '--json', `--outputFile=${file}`, ...flags];
  try {
    const status = await run('test:jest', ['--', ...args], undefined, env);
    return { status, report: existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : undefined };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function jestCounts({ status, report }) {
  const passed = report?.numPassedTests ?? 0;
  const skipped = (report?.numPendingTests ?? 0) + (report?.numTodoTests ?? 0);
  // A file that does not load has no failed tests, and a failed set-up has none either.
  const failed = (report?.numFailedTests ?? 0) + (report?.numRuntimeErrorTestSuites ?? 0);
  return { passed, skipped, failed: failed === 0 && status !== 0 ? 1 : failed };
}

function failedFiles({ report }) {
  const failed = report?.testResults.filter(({ status }) => status === 'failed') ?? [];
  return [...new Set(failed.map(({ name }) => relative(root, name)))];
}

const total = { passed: 0, failed: 0, skipped: 0 };
const broken = new Set();
/** Files of tests that failed beside others, and passed alone. */
const unstable = [];

/** A step that runs beside others prints its output when it has ended. */
async function runStep({ name, title, needs = [], beside, run: work }) {
  const missing = needs.filter((need) => broken.has(need));
  const out = beside ? [] : undefined;
  if (!beside) console.log(`\n=== ${title}`);
  const start = performance.now();
  const counts = missing.length > 0 ? { passed: 0, failed: 0, skipped: 1 } : await attempt(() => work(out));
  const seconds = ((performance.now() - start) / 1000).toFixed(1);
  if (beside) process.stdout.write(`\n=== ${title}\n${Buffer.concat(out).toString()}`);
  if (missing.length > 0) console.log(`=== ${title}: not run, since it needs ${missing.join(' and ')}`);
  else console.log(`=== ${title}: ${counts.failed === 0 ? 'ok' : 'FAILED'} in ${seconds} s`);
  for (const count of Object.keys(total)) total[count] += counts[count] ?? 0;
  if (counts.failed > 0 || missing.length > 0) broken.add(name);
}

async function attempt(work) {
  try {
    return await work();
  } catch (error) {
    console.error(error.message);
    return counted(false);
  }
}

async function runAll(steps) {
  for (const step of steps) await runStep(step);
}

async function main(isAll) {
  const start = performance.now();
  const steps = isAll ? REPEATS : TEST;
  await runAll(BUILT);
  const aside = runAll(steps.filter(({ beside }) => beside));
  await runAll(steps.filter(({ beside, alone }) => !beside && !alone));
  await aside;
  await runAll(steps.filter(({ alone }) => alone));
  for (const file of unstable) console.log(`\nUNSTABLE ${file}: failed beside others, passed alone. Mend it first.`);
  if (broken.size > 0) console.log(`\nFailed or not run: ${[...broken].join(', ')}`);
  console.log(`\nIn ${((performance.now() - start) / 60_000).toFixed(1)} min:`);
  console.log(`${total.passed} passed, ${total.failed} failed, ${total.skipped} skipped`);
  process.exitCode = total.failed > 0 ? 1 : 0;
}

endOnSignals();
await main(process.argv.includes('--all'));
