// The checks of each app, as a tree of steps: the steps in `next` need the result of their step.
//
// A step runs `node args…` in the folder of its app, or in `cwd` below it. A step with `node` uses that version of Node, or Bun, and
// `{tools}` in an argument is a folder of packages; both come from the app "tools". `{root}` is this repository, and `{app}` the folder of the
// app, also in `env`, which has further variables. `versions` names the packages whose versions are printed.
// A step with `reports` ends with a list of what it checked. `limitMs` is how long it may take, if more than two minutes.

const JEST = 'node_modules/jest/bin/jest.js';
const NEST = 'node_modules/@nestjs/cli/bin/nest.js';
const APP = ['@nestjs/core', 'ioredis'];
const TYPES = ['@nestjs/core', 'ioredis', '@types/node'];

const run = (title, main, { groups = [], ...step } = {}) => ({
  title: `${title}, run`,
  args: [main, ...groups],
  versions: APP,
  reports: true,
  ...step,
});

/** Compiles without skipLibCheck; `next` receives the main file and the title. */
const compile = (compiler, format, options, next = (main, title) => [run(title, main)]) => {
  const title = `${compiler}, ${format}`;
  const folder = `out/${compiler}-${format}`;
  const compiled = [`{tools}/${compiler}/bin/tsc`, '-p', 'tsconfig.build.json', '--outDir', folder, ...options];
  return {
    title,
    args: compiled,
    tools: [compiler],
    versions: TYPES,
    // Node reads the nearest package.json, so the same app can be compiled to both formats.
    files: { [`${folder}/package.json`]: JSON.stringify({ type: format === 'nodenext ESM' ? 'module' : 'commonjs' }) },
    next: next(`${folder}/main.js`, title),
  };
};

const NODE_NEXT = ['--module', 'nodenext', '--moduleResolution', 'nodenext'];
const COMMONJS = ['--module', 'commonjs', '--moduleResolution'];
const IGNORE_DEPRECATIONS = ['--ignoreDeprecations', '6.0'];

/** From version 24 on, Node keeps the contexts of calls in an AsyncContextFrame; the flags choose the other way. */
const CONTEXTS = { 'node-22': 'hooks', 'node-24': 'frame', 'node-26': 'frame' };
const OTHER_CONTEXTS = [
  ['node-22', '--experimental-async-context-frame', 'frame'],
  ['node-24', '--no-async-context-frame', 'hooks'],
];

/** The built app with each kind of client, on each version of Node, and on Bun. */
const everywhere = (main, title) => [
  run(title, main),
  run(`${title}, options of ioredis`, main, { groups: ['clients'] }),
  ...Object.entries(CONTEXTS).map(([node, kind]) =>
    run(title, main, { node, groups: ['locks', 'contexts', 'http', 'clients', 'subpaths'], env: { CONTEXTS: kind } }),
  ),
  ...OTHER_CONTEXTS.map(([node, flag, kind]) =>
    run(`${title}, ${flag}`, main, { node, args: [flag, main, 'locks', 'contexts', 'http'], env: { CONTEXTS: kind } }),
  ),
  run(`${title}, Bun`, main, { node: 'bun', groups: ['locks', 'contexts', 'http', 'subpaths'] }),
];

const bundle = (builder, args, versions) => ({
  title: `nest build with ${builder}, minified`,
  args: [NEST, 'build', '-p', 'tsconfig.build.json', ...args],
  versions: ['@nestjs/cli', ...versions],
  next: [
    run(`the bundle of ${builder}`, 'dist/main.js'),
    run(`the bundle of ${builder} with the installed copy`, 'dist/main.js', { groups: ['copies'] }),
  ],
});

/** An app that has no ioredis compiles without skipLibCheck, and runs. */
const withoutIoredis = (library, format = 'nodenext ESM') =>
  compile('typescript-6', format, NODE_NEXT, (main) => [
    run(`without ioredis, ${library}`, main, { versions: ['@nestjs/core', library] }),
  ]);

/** Tests of this repository, with the libraries of clients that the app has installed. */
const ownTests = (title, name, paths, env = {}) => ({
  title,
  args: [`{root}/${JEST}`, '--rootDir={root}', '--config={root}/jest.config.mjs', '--maxWorkers=2', ...paths],
  env: { CLIENTS_FROM: '{app}/node_modules', ...env },
  limitMs: 300_000,
  versions: [name],
});

/** What the port on clients promises (test/clients). */
const conformance = (library, name = library) =>
  ownTests(`the promises of the port on clients, ${library}`, name, [`test/clients/${library}.spec`]);

const FAULTS = ['faults/network/(late-commands|resend|subscriber)', 'faults/outage/(redis-back|restart)'];
/** What a client does to commands and subscriptions when one server or its network fails. */
const faults = (library, name, env) => ownTests(`faults on one server, ${library}`, name, FAULTS, env);

const OF_CONTEXTS = [
  'contract/reentry/(owner|reentry).spec',
  'contract/loss/(loss|method).spec',
  'unit/core/(reentry/context|contexts)',
  'nest/streams/contexts',
];
/** What this repository tests of the contexts of calls, on another version of Node, with its own packages. */
const contextTests = (node) => ({
  ...ownTests('the contexts of calls', 'ioredis', OF_CONTEXTS, { CLIENTS_FROM: '' }),
  node,
});

/** The tests of an app. */
const appTests = (title, args, ...packages) => ({ title, args, versions: [...APP, ...packages] });

/** The app that the CLI makes, after `nest add` of the package. */
const added = () => ({
  title: 'nest new',
  args: [NEST, 'new', 'app', '--skip-install', '--skip-git', '-p', 'npm'],
  versions: ['@nestjs/cli'],
  next: [
    {
      title: 'nest add',
      cwd: 'app',
      args: [`{app}/${NEST}`, 'add', 'nestjs-redis-lock', '--skip-install'],
      versions: ['@nestjs/cli'],
      next: [
        {
          title: 'the app with the module',
          args: ['node_modules/typescript/bin/tsc', '-p', 'app/tsconfig.build.json', '--types', 'node'],
          versions: ['@nestjs/core', 'typescript'],
          next: [run('the app with the module', 'started-app.mjs')],
        },
      ],
    },
  ],
});

export const APPS = {
  'nest-11-commonjs': [
    appTests('Jest as Nest 11 configures it', [JEST, '--runInBand'], 'jest', 'typescript'),
    compile('typescript-5.9', 'commonjs', [...COMMONJS, 'node10'], everywhere),
    compile('typescript-5.9', 'nodenext', NODE_NEXT),
    compile('typescript-6', 'commonjs', [...COMMONJS, 'node10', ...IGNORE_DEPRECATIONS]),
    compile('typescript-6', 'nodenext', NODE_NEXT),
    compile('typescript-7', 'commonjs', [...COMMONJS, 'bundler']),
    compile('typescript-7', 'nodenext', NODE_NEXT),
    bundle('webpack', ['--webpack'], ['webpack']),
    {
      title: 'nest build with swc',
      args: [NEST, 'build', '-p', 'tsconfig.build.json', '--builder', 'swc'],
      versions: ['@nestjs/cli', '@swc/core'],
      next: [run('the output of swc', 'dist/src/main.js')],
    },
  ],
  'nest-12-esm': [
    appTests('Jest with ES modules', ['--experimental-vm-modules', JEST, '--runInBand'], 'jest', 'typescript'),
    compile('typescript-5.9', 'nodenext ESM', NODE_NEXT),
    compile('typescript-5.9', 'commonjs', [...COMMONJS, 'node10']),
    compile('typescript-6', 'nodenext ESM', NODE_NEXT, everywhere),
    compile('typescript-6', 'commonjs', [...COMMONJS, 'bundler']),
    compile('typescript-7', 'nodenext ESM', NODE_NEXT),
    compile('typescript-7', 'commonjs', [...COMMONJS, 'bundler']),
    contextTests('node-24'),
    contextTests('node-26'),
    bundle('rspack', ['--builder', 'rspack', '--rspackPath', 'rspack.config.cjs'], ['@rspack/core']),
  ],
  'nest-add-11': [added()],
  'nest-add-12': [added()],
  'nest-12-vitest': [appTests('Vitest', ['node_modules/vitest/vitest.mjs', 'run'], 'vitest', 'vite')],
  'older-clients': [
    conformance('ioredis'),
    conformance('node-redis', 'redis'),
    faults('ioredis', 'ioredis'),
    faults('node-redis', 'redis', { LIBRARY: 'node-redis' }),
  ],
  iovalkey: [withoutIoredis('iovalkey')],
  'node-redis': [withoutIoredis('redis')],
  'node-redis-5': [withoutIoredis('redis', 'nodenext')],
  'lowest-peers': [
    compile('typescript-5.9', 'commonjs', [...COMMONJS, 'node10'], (main) => [
      run('the lowest versions of all peers', main, {
        node: 'node-20.19',
        versions: [...APP, 'rxjs', 'reflect-metadata'],
      }),
    ]),
  ],
};
