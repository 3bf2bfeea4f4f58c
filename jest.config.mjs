/** All tests are one project. scripts/check.mjs lists which files run in which command, on which topology and library of clients. */
export default {
  roots: ['lib', 'test', 'scripts', 'sample-app', 'examples'].map((folder) => `<rootDir>/${folder}`),
  // Apps that install the package, with their own tests.
  modulePathIgnorePatterns: ['<rootDir>/test/package/apps/'],
  testRegex: '\\.spec\\.ts$',
  // Without VM contexts, in which modules are slow and compiled again for each file.
  runtime: '<rootDir>/test/support/jest/runtime.cjs',
  testEnvironment: '<rootDir>/test/support/strict/environment.mjs',
  globalSetup: '<rootDir>/test/support/topologies/global-setup.mjs',
  globalTeardown: '<rootDir>/test/support/topologies/global-teardown.mjs',
  transform: {},
  // For --watch and --findRelatedTests, which follow the imports.
  moduleNameMapper: { '^(\\.{1,2}/.*)\\.(c?)js$': ['$1.$2ts', '$1.$2js'] },
  waitForUnhandledRejections: true,
  // Ends a test that hangs. Far more than a test takes on a busy machine.
  testTimeout: 60_000,
  // Test files stay in memory when they have run.
  workerIdleMemoryLimit: '600MB',
};
