import process from 'node:process';
import { swcOptions } from './scripts/swc.mjs';

const SPEC = '\\.spec\\.ts$';

/** ioredis and node-redis in other versions: scripts/compatibility.mjs installs them in this folder. */
const clientsFrom = process.env.CLIENTS_FROM;
const otherVersions = clientsFrom ? { '^(ioredis|redis)$': `${clientsFrom}/$1` } : {};

/** One project per kind of test, so that each can be run alone: `npm run test:jest -- --selectProjects unit`. */
const common = {
  // Warnings and unhandled rejections fail tests.
  testEnvironment: '<rootDir>/test/support/strict/environment.mjs',
  waitForUnhandledRejections: true,
  extensionsToTreatAsEsm: ['.ts'],
  moduleNameMapper: { '^(\\.{1,2}/.*)\\.js$': '$1', '^(.*/optional-peers)\\.cjs$': '$1', ...otherVersions },
  transform: { '^.+\\.ts$': ['@swc/jest', swcOptions('es6')], '^.+\\.cts$': ['@swc/jest', swcOptions('commonjs')] },
};

const project = (displayName, roots, extra = {}) => ({
  ...common,
  displayName,
  roots: roots.map((root) => `<rootDir>/${root}`),
  testRegex: SPEC,
  ...extra,
});

/** Tests only the store. Left out on topologies whose store is that of one Redis or of a quorum: it would take minutes more. */
const STORE = `/lock-store-contract${SPEC}`;

/**
 * The part of the contract that depends on the store; the code above the store is the same on each. The slowest such files
 * (`fuzz`, `admin/list`, `waiting/wake-up`) run only in `npm run test:all`: `lock-store-contract` covers the same more briefly.
 */
const OF_STORE = [
  'admin/force-release',
  'exclusion',
  'lock-store-contract',
  'nothing-left',
  'several-keys/several-keys',
].map((path) => `/test/contract/${path}${SPEC}`);

/** The part of the contract in which a cluster or sentinels are reached by the client: commands for one and several keys, and wake-ups. */
const OF_CLIENT = [
  ...OF_STORE,
  ...['client-library', 'waiting/wake-up'].map((path) => `/test/contract/${path}${SPEC}`),
];

/** The faults that a client meets with one server; behind sentinels and on a cluster, ioredis and node-redis stand for all. */
const ON_ONE_SERVER = ['client-options', 'databases', 'network/.*', 'outage/.*'].map(
  (path) => `/test/faults/${path}${SPEC}`,
);

/** These count what comes late, or what a machine that stands still would break: they run when nothing else does. */
const QUIET = ['processes/turns', 'network/slow-network'].map((path) => `/test/faults/${path}${SPEC}`);

/** These test the tests of the scripts: they must notice each mutant. */
const MUTANTS = `/test/scripts/.*mutants${SPEC}`;

const only = (...paths) => ({ testRegex: paths });
const without = (...paths) => ({ testPathIgnorePatterns: ['/node_modules/', ...paths] });

/** `npm test` runs the part `first`, `npm run test:all` the part `again`. Without PART, a project runs all of its tests. */
const PARTS = {
  first: { contract: only(...OF_STORE), scripts: without(MUTANTS), faults: without(...QUIET) },
  quiet: { faults: only(...QUIET) },
  again: {
    contract: without(...OF_STORE),
    further: only(...OF_STORE),
    scripts: only(MUTANTS),
    faults: without(...QUIET),
  },
};
const part = PARTS[process.env.PART];

/** The contract on another topology than one Redis. */
const contractOn = (topology, extra) =>
  project(`contract-${topology}`, ['test/contract'], { globals: { TOPOLOGY: topology }, ...extra });

/** In an app that has only this library of clients: the connections of our own come from it. */
const withOnly = (library) => ({
  globals: { TOPOLOGY: 'single', LIBRARY: library },
  moduleNameMapper: {
    '^.*/optional-peers\\.cjs$': `<rootDir>/test/support/clients/only-${library}.cts`,
    ...common.moduleNameMapper,
  },
});
const contractWith = (library) => project(`contract-${library}`, ['test/contract'], withOnly(library));
const contractWithOn = (library, topology) => {
  const { globals, moduleNameMapper } = withOnly(library);
  const extra = { globals: { ...globals, TOPOLOGY: topology }, moduleNameMapper, ...startedFor(topology) };
  return project(`contract-${library}-${topology}`, ['test/contract'], {
    ...extra,
    ...only(...OF_CLIENT),
    ...without(STORE),
  });
};

/** The examples import the package by its name; here they are tested with its sources. */
const ofSources = {
  moduleNameMapper: {
    ...common.moduleNameMapper,
    '^nestjs-redis-lock$': '<rootDir>/lib/index.ts',
    '^nestjs-redis-lock/testing$': '<rootDir>/lib/testing/index.ts',
  },
};

/** Jest runs a set-up file once, so each topology has its own. */
const startedFor = (topology) => ({
  globalSetup: `<rootDir>/test/support/topologies/${topology}.mjs`,
  globalTeardown: '<rootDir>/test/support/topologies/topology-teardown.mjs',
});

export default {
  // Ends a test that hangs. Far more than a test takes on a busy machine.
  testTimeout: 60_000,
  // Modules of finished test files stay in memory; without this limit, garbage collection takes a third of the time.
  workerIdleMemoryLimit: '400MB',
  globalSetup: './test/support/topologies/global-setup.mjs',
  globalTeardown: './test/support/topologies/global-teardown.mjs',
  collectCoverageFrom: ['lib/**/*.ts', '!lib/index.ts'],
  projects: [
    project('architecture', ['test/architecture']),
    project('unit', ['test/unit']),
    project('scripts', ['test/scripts'], part?.scripts),
    project('simulation', ['test/simulation']),
    project('chaos', ['test/chaos']),
    project('contract', ['test/contract'], { globals: { TOPOLOGY: 'single' } }),
    contractOn('memory', part?.contract),
    ...['cluster', 'quorum'].map((name) => contractOn(name, { ...startedFor(name), ...part?.contract })),
    ...['secured', 'sentinel', 'quorum-degraded'].map((name) =>
      contractOn(name, { ...startedFor(name), ...part?.further, ...without(STORE) }),
    ),
    ...['iovalkey', 'node-redis'].map(contractWith),
    ...['cluster', 'sentinel'].map((topology) => contractWithOn('node-redis', topology)),
    project('faults', ['test/faults'], part?.faults),
    project('faults-node-redis', ['test/faults'], { ...withOnly('node-redis'), ...part?.faults }),
    project('faults-iovalkey', ['test/faults'], { ...withOnly('iovalkey'), ...only(...ON_ONE_SERVER) }),
    project('clients', ['test/clients']),
    project('nest', ['test/nest']),
    project('cli', ['test/cli']),
    project('fuzz', ['test/fuzz']),
    project('e2e', ['sample-app/test']),
    project('examples', ['examples'], ofSources),
  ],
};
