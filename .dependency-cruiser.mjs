// The layers of lib and what each may import (see docs/how-it-works.md). `import type` also counts; cycles are refused.
const NEST = ['@nestjs/', 'rxjs', 'reflect-metadata'];
const FOLDERS = ['core', 'memory', 'redis', 'schedule', 'leader', 'interceptor', 'decorators'];
const ROOT_FILES = ['parts', 'service', 'tokens', 'options', 'place', 'registration'].map(
  (name) => `redis-lock.${name}`,
);
const WIRING = [
  'interceptor',
  'leader',
  'redis-lock.module',
  'redis-lock.options',
  'redis-lock.parts',
  'redis-lock.service',
  'redis-lock.tokens',
];

/** These replace the locks in Redis by those of a test: they wire, as the module does. */
const TEST_WIRING = ['redis-lock-testing.module', 'fake-lock.service', 'fake-locks'].map((name) => `testing/${name}`);

/** Folders and files of lib (without `.ts`), each with what it may import: files of lib, types of lib, and packages. */
const LAYERS = [
  { from: ['index'], lib: [''] },
  { from: ['core', 'store'], lib: ['core'] },
  { from: ['redis'], lib: ['core', 'redis'] },
  { from: ['memory'], lib: ['core', 'memory'] },
  { from: ['redis/client/ioredis'], lib: [], packages: ['ioredis'] },
  { from: ['redis/client/node-redis'], lib: [], packages: ['redis', '@redis/client'] },
  // Loads the libraries that are installed.
  { from: ['redis/client/optional-peers'], lib: [], packages: ['ioredis', 'iovalkey', 'redis'] },
  { from: ['schedule'], lib: ['core', 'schedule'], packages: ['@nestjs/'] },
  {
    from: ['leader'],
    lib: ['core', 'schedule', 'leader', 'redis-lock.parts'],
    packages: ['@nestjs/', 'reflect-metadata'],
  },
  { from: ['keys'], lib: ['core', 'keys'] },
  {
    from: ['interceptor'],
    lib: ['core', 'schedule', 'keys', 'interceptor', 'redis-lock.parts', 'redis-lock.service', 'redis-lock.tokens'],
    types: ['redis-lock.options'],
    packages: NEST,
  },
  {
    from: ['decorators'],
    lib: ['core', 'keys', 'leader', 'interceptor', 'decorators', 'redis-lock.tokens'],
    packages: ['@nestjs/', 'reflect-metadata'],
  },
  { from: ['testing'], lib: ['core', 'memory', 'testing'], packages: NEST },
  { from: TEST_WIRING, lib: WIRING },
  {
    from: ['observability'],
    lib: ['core', 'observability', 'redis-lock.parts', 'redis-lock.service', 'redis-lock.tokens'],
    packages: [...NEST, '@opentelemetry/api', 'prom-client'],
  },
  // Runs without Nest, and is not imported.
  { from: ['cli'], lib: ['core', 'redis', 'cli'] },
  {
    from: ['board'],
    lib: [
      'core',
      'schedule',
      'board',
      'interceptor/jobs',
      'interceptor/lock-logger',
      'observability/lock-services',
      'redis-lock.parts',
      'redis-lock.service',
    ],
    packages: ['@nestjs/'],
  },
  { from: ['redis-lock.module'], lib: [...FOLDERS, ...ROOT_FILES], packages: NEST },
  {
    from: ['redis-lock.options'],
    lib: ['core', ...ROOT_FILES],
    types: FOLDERS,
    packages: NEST,
  },
  {
    from: ['redis-lock.place'],
    // The option `connection` is checked where a client is used.
    lib: ['core', 'redis/client/check-connection'],
  },
  { from: ['redis-lock.registration'], lib: ['core', 'redis-lock.tokens'], packages: NEST },
  { from: ['redis-lock.parts'], lib: ['core'] },
  {
    from: ['redis-lock.service', 'redis-lock.tokens'],
    lib: ['core', 'leader', 'redis-lock.parts', 'redis-lock.service', 'redis-lock.tokens', 'redis-lock.options'],
    packages: NEST,
  },
];

const escaped = (name) => name.replaceAll('.', '\\.');
const ofLib = (names) => names.map((name) => (name === '' ? '^lib/' : `^lib/${escaped(name)}(/|\\.c?ts$)`));
const ofPackages = (names) => names.map((name) => `(^|/)node_modules/${escaped(name)}${name.endsWith('/') ? '' : '/'}`);

/** @type {import('dependency-cruiser').IConfiguration} */
export default {
  forbidden: [
    {
      name: 'no-circular',
      severity: 'error',
      from: {},
      to: { circular: true },
    },
  ],
  // Everything else is an error, so a new folder needs a layer.
  allowed: [
    { from: { path: '^lib/' }, to: { dependencyTypes: ['core'] } },
    ...LAYERS.map(({ from, lib, packages = [] }) => ({
      from: { path: ofLib(from) },
      to: { path: [...ofLib(lib), ...ofPackages(packages)] },
    })),
    ...LAYERS.filter(({ types }) => types).map(({ from, types }) => ({
      from: { path: ofLib(from) },
      to: { path: ofLib(types), dependencyTypes: ['type-only'] },
    })),
  ],
  allowedSeverity: 'error',
  options: {
    tsConfig: { fileName: 'tsconfig.json' },
    tsPreCompilationDeps: true,
    doNotFollow: { path: ['node_modules'] },
    enhancedResolveOptions: {
      exportsFields: ['exports'],
      conditionNames: ['import', 'require', 'node', 'default', 'types'],
    },
  },
};
