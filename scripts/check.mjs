// Runs the checks of the project: `npm test`, `npm run test:all`, `npm run test:exhaustive`. The last line sums them up.
import { existsSync } from 'node:fs';
import { constants } from 'node:os';
import { join } from 'node:path';
import process from 'node:process';
import { readJson, root, withFolder } from './checks.mjs';
import { endOnSignals, follow } from './follow.mjs';
import { ensureChromium, ensureRedisServer, onPath } from './programs.mjs';

const bin = (path) => join(root, 'node_modules', path);

/** A step that hangs is ended after this time, with all that it started. */
const STEP_LIMIT_MS = { test: 900_000, all: 900_000, exhaustive: 7_200_000 };

/** The tests that start processes of the built package or a browser, or take seconds each. */
const PROCESSES = '\\.process\\.spec\\.ts$';
/** The tests that fail on a busy machine. */
const QUIET = '\\.quiet\\.spec\\.ts$';
const MUTANTS = 'mutants\\.spec\\.ts$';
const contract = (names) => names.map((name) => `contract/${name}\\.spec`);
/**
 * The part of the contract that depends on the store, and on how a client reaches it: commands for one and several keys, and wake-ups.
 * The code above the store is the same on each topology.
 */
const OF_CLIENT = contract([
  'admin/force-release',
  'client-library',
  'exclusion',
  'nothing-left',
  'several-keys/several-keys',
  'several-keys/waiting',
  'waiting/wake-up',
]);
const STORE = contract(['lock-store-contract']);
/** The faults that a client meets with one server. */
const ON_ONE_SERVER = ['clients', 'databases', 'network/', 'outage/'].map((path) => `faults/${path}`);

/** Behind sentinels, and with TLS, the store is that of one Redis; with a node down, it is that of a quorum. */
const TOPOLOGIES = ['memory', 'cluster', 'quorum', 'secured', 'sentinel', 'quorum-degraded'];
/** Where some files with tests of processes have no test. */
const WITHOUT_PROCESSES = ['memory', 'quorum', 'quorum-degraded'];
const LIBRARIES = ['ioredis', 'iovalkey', 'node-redis'];
const libraryOf = (library) => (library === 'ioredis' ? {} : { LIBRARY: library });

/** A new seed. It is printed, and repeats the run. */
const NEW = `--seed=${Math.floor(Math.random() * 1e6)}`;

/**
 * The steps in their order, each with the commands that run it. `needs` names the steps that must have passed. A step with `beside` runs
 * at the same time as the others, one such step after the other; a step with `first` runs before all others.
 */
const STEPS = [
  ...[
    { name: 'Redis server', in: ['test'], run: () => counted(ensureRedisServer()) },
    { name: 'Browser', in: [], run: () => counted(ensureChromium()) },
    { name: 'Build', in: ['test'], run: () => node(['scripts/build.mjs']) },
    { name: 'Build of the sample app', in: [], run: () => npm(['run', 'build', '-w', 'sample-app']) },
  ].map((step) => ({ ...step, in: ['all', 'exhaustive', ...step.in], first: true })),

  ...[
    check('test', 'Lint', (out) => node([bin('oxlint/bin/oxlint'), '--type-aware', '--deny-warnings'], out)),
    check('test', 'English', (out) => counting(['english.mjs'], out)),
    ...['.', 'test/types', 'sample-app/test', 'examples/sqlite-store'].map((folder) =>
      check('test', `Types in ${folder}`, (out) => node([bin('typescript-7/bin/tsc'), '--noEmit', '-p', folder], out)),
    ),
    ...(onPath('luacheck')
      ? [check('test', 'Lua', async (out) => counted((await runChild('luacheck', ['lib/redis/scripts'], out)) === 0))]
      : []),
    check('test', 'Exports of both builds', (out) => counting(['api-exports.mjs'], out)),
    check('all', 'Layers', (out) => node([bin('dependency-cruiser/bin/dependency-cruise.mjs'), 'lib'], out)),
    check('all', 'Unused code', (out) => node([bin('knip/bin/knip.js')], out)),
    check('all', 'Format', (out) => node([bin('prettier/bin/prettier.cjs'), '--check', '.'], out)),
    check('all', 'Documents', (out) => counting(['docs-check.mjs'], out)),
    check('all', 'Package', (out) => counting(['package-check.mjs', '--built'], out)),
    // The types of the decorators must accept and refuse the same with every supported TypeScript.
    ...['typescript-5.9', 'typescript', 'typescript-7'].flatMap((compiler) =>
      [[], ['--noUncheckedIndexedAccess', 'false']].map((options) =>
        check('all', `Type tests, ${[compiler, ...options].join(' ')}`, (out) =>
          node([bin(`${compiler}/bin/tsc`), '--noEmit', '-p', 'test/types', ...options], out),
        ),
      ),
    ),
    check('all', 'The package in some apps', (out) => counting(['compatibility.mjs', 'lowest-peers', 'iovalkey'], out)),
    check('exhaustive', 'The package in all apps', (out) => counting(['compatibility.mjs'], out)),
  ].map((step) => ({ ...step, beside: true })),

  tests('test', 'Tests', {
    paths: [`${root}/test/`],
    without: [PROCESSES, QUIET, MUTANTS, 'test/(faults|clients|simulation)/'],
    env: { FUZZ_RUNS: '100' },
  }),
  tests('all', 'Tests of processes', {
    paths: [`test/(contract|nest|cli)/.*${PROCESSES}`, 'sample-app/test', 'examples/'],
    without: [QUIET],
    workers: 4,
  }),
  ...['typescript-5.9', 'typescript-7'].map((COMPILER) =>
    tests('all', `Texts of ${COMPILER}`, { paths: ['keys/compiler-texts'], env: { COMPILER } }),
  ),
  tests('all', 'Faults and clients', { paths: ['test/(faults|clients)/'], without: [QUIET], workers: 4 }),
  tests('exhaustive', 'The docs site', { paths: ['test/site/'] }),
  tests('exhaustive', 'Mutants, and what the simulation finds', { paths: [MUTANTS, 'test/simulation/'] }),
  ...TOPOLOGIES.map((TOPOLOGY) =>
    tests('all', `Contract on ${TOPOLOGY}`, {
      paths: [...OF_CLIENT, ...(['cluster', 'quorum'].includes(TOPOLOGY) ? STORE : [])],
      env: { TOPOLOGY },
      workers: 3,
    }),
  ),
  ...['single node-redis', 'cluster node-redis', 'sentinel node-redis', 'single iovalkey'].map((both) => {
    const [TOPOLOGY, LIBRARY] = both.split(' ');
    const env = { TOPOLOGY, LIBRARY };
    return tests('all', `Contract on ${TOPOLOGY}, ${LIBRARY}`, { paths: OF_CLIENT, env, workers: 3 });
  }),
  tests('all', 'Faults of one server, node-redis', {
    paths: ON_ONE_SERVER,
    without: [QUIET],
    env: { LIBRARY: 'node-redis' },
    workers: 4,
  }),
  seeded('all', 'Simulation', ['simulate.mjs', '--seed=1', '--seconds=30']),
  seeded('all', 'Chaos on one Redis', ['chaos.mjs', '--topology=single', '--seed=1', '--seconds=30']),
  seeded('all', 'Chaos on a quorum', ['chaos.mjs', '--topology=quorum', '--seed=1', '--seconds=30']),
  seeded('all', 'Formal models', ['model.mjs', '--seed=1', '--seconds=30']),
  seeded('all', 'Traces of the code and of the model', ['model.mjs', '--traces', '--seed=1', '--seconds=1']),

  ...LIBRARIES.flatMap((library) =>
    ['single', ...TOPOLOGIES].map((TOPOLOGY) =>
      tests('exhaustive', `Whole contract on ${TOPOLOGY}, ${library}`, {
        paths: ['test/contract/'],
        without: WITHOUT_PROCESSES.includes(TOPOLOGY) ? [PROCESSES] : [],
        env: { TOPOLOGY, ...libraryOf(library) },
        workers: 3,
      }),
    ),
  ),
  ...LIBRARIES.map((library) => {
    return tests('exhaustive', `All faults, ${library}`, {
      paths: ['test/faults/'],
      without: [QUIET],
      env: libraryOf(library),
      workers: 4,
    });
  }),
  ...LIBRARIES.map((library) => {
    const of = { paths: [QUIET], env: libraryOf(library), workers: 1 };
    return tests('exhaustive', `Tests that need a quiet machine, ${library}`, of);
  }),
  tests('exhaustive', 'Random games, for longer', {
    paths: ['scripts/games'],
    env: { FUZZ_RUNS: '2000' },
    workers: 3,
  }),
  seeded('exhaustive', 'Bad input, for longer', ['fuzz.mjs', NEW, '--seconds=120']),
  seeded('exhaustive', 'Planted bugs of the simulation', ['simulate.mjs', '--bugs']),
  seeded('exhaustive', 'Simulation of new seeds', ['simulate.mjs', NEW, '--seconds=600']),
  ...['single', 'quorum', 'cluster', 'sentinel'].map((topology) =>
    seeded('exhaustive', `Chaos on ${topology}`, ['chaos.mjs', `--topology=${topology}`, NEW, '--seconds=120']),
  ),
  seeded('exhaustive', 'Formal models, for longer', ['model.mjs', NEW, '--seconds=120']),
  seeded('exhaustive', 'Traces of the code and of the model, for longer', [
    'model.mjs',
    '--traces',
    NEW,
    '--seconds=120',
  ]),
  seeded('exhaustive', 'Mutants of the formal models', ['model.mjs', '--mutants']),
];

function check(where, name, run) {
  return { name, in: [where], needs: ['Build'], run };
}

/** Runs the test files whose paths match. */
function tests(where, name, options) {
  return { name, in: [where], needs: ['Redis server', 'Build'], run: () => jest(options) };
}

/** A run whose seed determines what is random. */
function seeded(where, name, [script, ...args]) {
  return {
    name,
    in: [where],
    needs: ['Redis server', 'Build'],
    run: () => {
      console.log(`node scripts/${script} ${args.join(' ')}`);
      return node([`scripts/${script}`, ...args]);
    },
  };
}

const counted = (ok) => (ok ? { passed: 1, failed: 0 } : { passed: 0, failed: 1 });

/** The priority of a step that runs at the same time as tests: their processes must not be late. */
const BESIDE = constants.priority.PRIORITY_LOW;
/** Runs a child. Its output goes to that of this process, or into `out` if others run at the same time. */
const runChild = (program, args, out, env) => {
  const options = { cwd: root, limitMs: STEP_LIMIT_MS[which], env: { ...process.env, ...env } };
  return follow(program, args, { ...options, out, priority: out && BESIDE });
};
const node = async (args, out) => counted((await runChild(process.execPath, args, out)) === 0);
const npm = async (args, out) => counted((await runChild('npm', args, out)) === 0);

/** The number of failed checks: at least one if there was none, or if the command has failed. */
const failedOf = (passed, failed, status) => (failed === 0 && (status !== 0 || passed === 0) ? 1 : failed);

/** Runs a script whose last line counts its checks. */
async function counting([script, ...args], out) {
  const status = await runChild(process.execPath, [join(root, 'scripts', script), ...args], out);
  const last = /(\d+) passed, (\d+) failed(?:, (\d+) skipped)?\s*$/.exec(Buffer.concat(out).toString());
  const [passed = 0, failed = 0, skipped = 0] = (last ?? []).slice(1).map((count) => Number(count ?? 0));
  return { passed, skipped, failed: failedOf(passed, failed, status) };
}

function jest({ paths, without = [], env, workers = 2 }) {
  return withFolder(async (folder) => {
    const file = join(folder, 'results.json');
    const ignored = ['/node_modules/', ...without].map((path) => `--testPathIgnorePatterns=${path}`);
    const flags = [...ignored, '--ci', `--maxWorkers=${workers}`, '--json', `--outputFile=${file}`];
    const status = await runChild(process.execPath, [bin('jest/bin/jest.js'), ...flags, ...paths], undefined, env);
    const report = existsSync(file) ? readJson(file) : {};
    const { numPassedTests: passed = 0, numFailedTests = 0, numRuntimeErrorTestSuites = 0 } = report;
    // A file that does not load has no failed tests, and a failed set-up has none either.
    const failed = numFailedTests + numRuntimeErrorTestSuites;
    const skipped = (report.numPendingTests ?? 0) + (report.numTodoTests ?? 0);
    return { passed, skipped, failed: failedOf(passed, failed, status) };
  });
}

const total = { passed: 0, failed: 0, skipped: 0 };
const broken = [];
const times = [];

/** A step that runs concurrently prints its output when it has ended. */
async function runStep({ name, needs = [], beside, run }) {
  const missing = needs.filter((need) => broken.includes(need));
  const out = beside ? [] : undefined;
  if (!beside) console.log(`\n=== ${name}`);
  const start = performance.now();
  const attempt = async () => run(out);
  const counts =
    missing.length > 0
      ? { skipped: 1 }
      : await attempt().catch(({ message }) => (console.error(message), counted(false)));
  const took = `in ${((performance.now() - start) / 1000).toFixed(1)} s${beside ? ', with others at the same time' : ''}`;
  if (beside) process.stdout.write(`\n=== ${name}\n${Buffer.concat(out).toString()}`);
  for (const count of Object.keys(total)) total[count] += counts[count] ?? 0;
  const outcome = counts.failed === 0 ? `ok ${took}` : `FAILED ${took}`;
  times.push(`${name}: ${missing.length > 0 ? `not run, since it needs ${missing.join(' and ')}` : outcome}`);
  if (counts.failed !== 0) broken.push(name);
  console.log(`=== ${times.at(-1)}`);
}

async function runAll(steps) {
  for (const step of steps) await runStep(step);
}

const which = ['all', 'exhaustive'].find((name) => process.argv.includes(`--${name}`)) ?? 'test';

endOnSignals();
// Each step chooses its own.
for (const name of ['TOPOLOGY', 'LIBRARY', 'COMPILER', 'CLIENTS_FROM']) delete process.env[name];
const start = performance.now();
const steps = STEPS.filter((step) => step.in.includes(which));
await runAll(steps.filter(({ first }) => first));
await Promise.all([
  runAll(steps.filter(({ beside }) => beside)),
  runAll(steps.filter(({ first, beside }) => !first && !beside)),
]);
console.log(`\n${times.join('\n')}`);
console.log(`\nIn ${((performance.now() - start) / 60_000).toFixed(1)} min:`);
console.log(`${total.passed} passed, ${total.failed} failed, ${total.skipped} skipped`);
process.exitCode = total.failed > 0 ? 1 : 0;
