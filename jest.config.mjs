/** One project per kind of test, so that each can be run alone: `npm run test:jest -- --selectProjects unit`. */
const common = {
  testEnvironment: 'node',
  extensionsToTreatAsEsm: ['.ts'],
  moduleNameMapper: { '^(\\.{1,2}/.*)\\.js$': '$1' },
  transform: { '^.+\\.ts$': ['ts-jest', { useESM: true, tsconfig: '<rootDir>/tsconfig.json' }] },
};

const project = (displayName, roots, extra = {}) => ({
  ...common,
  displayName,
  roots: roots.map((root) => `<rootDir>/${root}`),
  testRegex: '\\.spec\\.ts$',
  ...extra,
});

/** Asks the store only, which is the same there as on one Redis, or on a quorum; on these it would take minutes more. */
const SAME_STORE = { testPathIgnorePatterns: ['/node_modules/', 'lock-store-contract\\.spec\\.ts$'] };

/** The contract on something else than one Redis. Jest runs a set-up file once, so each topology has its own. */
const contractOn = (topology) =>
  project(`contract-${topology}`, ['test/contract'], {
    ...(['secured', 'sentinel', 'quorum-degraded'].includes(topology) && SAME_STORE),
    globals: { TOPOLOGY: topology },
    globalSetup: `<rootDir>/test/support/topologies/${topology}.mjs`,
    globalTeardown: '<rootDir>/test/support/topologies/topology-teardown.mjs',
  });

export default {
  testTimeout: 30_000,
  // Modules of finished test files stay in memory; without it garbage collection takes a third of the time.
  workerIdleMemoryLimit: '400MB',
  globalSetup: './test/support/topologies/global-setup.mjs',
  globalTeardown: './test/support/topologies/global-teardown.mjs',
  collectCoverageFrom: ['lib/**/*.ts', '!lib/index.ts'],
  projects: [
    project('architecture', ['test/architecture']),
    project('unit', ['test/unit']),
    project('scripts', ['test/scripts']),
    project('contract', ['test/contract'], { globals: { TOPOLOGY: 'single' } }),
    project('contract-memory', ['test/contract'], { globals: { TOPOLOGY: 'memory' } }),
    ...['secured', 'sentinel', 'cluster', 'quorum', 'quorum-degraded'].map(contractOn),
    project('faults', ['test/faults']),
    project('nest', ['test/nest']),
    project('e2e', ['sample-app/test']),
  ],
};
