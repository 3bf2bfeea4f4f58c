// Packs the package and uses the tarball as users do: from ES modules, from CommonJS, and from both in one process.
// With `--built`, it packs dist as it is; otherwise it builds first.
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import process from 'node:process';
import { countsOf, isStarted, manifest, report, root, runChecks, withFolder } from './checks.mjs';

const NAMES = ['RedisLockModule', 'RedisLockService', 'Locked', 'ReadLocked', 'WriteLocked', 'LockError'];

const CLIENTS = ['ioredis', 'iovalkey', 'redis'];
const NEST = ['@nestjs/common', '@nestjs/core', '@nestjs/terminus', 'reflect-metadata', 'rxjs'];

const CHECK_NAMES = `
const missing = ${JSON.stringify(NAMES)}.filter((name) => typeof lib[name] !== 'function');
if (missing.length > 0) throw new Error('not exported: ' + missing.join(', '));
`;
const IMPORT = `import * as lib from '${manifest.name}';\n`;
const REQUIRE = `const lib = require('${manifest.name}');\n`;
// If Node can require an ES module, it does not load these files; test runners and older versions do.
const REQUIRE_COMMONJS = `const lib = require('./node_modules/${manifest.name}/${manifest.main}');\n`;

/** With `lib`: an app without a client library loads the package, and gets an error with what to install. */
const CHECK_NO_CLIENT = `${CHECK_NAMES}
const { NestFactory } = require('@nestjs/core');
class App {}
const { RedisLockModule, LockConfigurationError } = lib;
const options = { logger: false, abortOnError: false };
const started = NestFactory.createApplicationContext({ module: App, imports: [RedisLockModule.forRoot()] }, options);
started.then(
  () => { throw new Error('it started without a client'); },
  (error) => {
    if (error instanceof LockConfigurationError && error.message.includes('npm install ioredis')) return;
    throw error;
  },
);
`;

/** Starts the command of the package, which must find a client, and no server. */
const checkCommand = (text) => `
const { spawnSync } = require('node:child_process');
const { bin } = require('./node_modules/${manifest.name}/package.json');
const args = ['./node_modules/${manifest.name}/' + bin, 'ls', '--url', 'redis://127.0.0.1:1'];
const { status, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' });
if (!stderr.includes('${text}')) throw new Error('it ended with ' + status + ': ' + stderr);
`;

const CHECK_COPIES = `
const required = require('${manifest.name}');
const copies = ${JSON.stringify(NAMES)}.filter((name) => lib[name] !== required[name]);
if (copies.length > 0) throw new Error('two copies of: ' + copies.join(', '));
`;

const MODULE = `${IMPORT}import { createRequire } from 'node:module';\nconst require = createRequire(import.meta.url);\n`;
const OTHERS = { ioredis: ['iovalkey', 'redis'], 'node-redis': ['ioredis', 'iovalkey'] };

/** Scripts that must run without an error in an app that has the package, and all of its peers but some: title, type, script, peers. */
// prettier-ignore
const APPS = [
  ['an ES module imports it without a client', 'module', `import 'reflect-metadata';\n${MODULE}${CHECK_NO_CLIENT}`, CLIENTS],
  ['a CommonJS module requires it without a client', 'commonjs', `require('reflect-metadata');\n${REQUIRE_COMMONJS}${CHECK_NO_CLIENT}`, CLIENTS],
  ...Object.entries(OTHERS).map(([library, others]) => [
    `the command runs with ${library}, and without Nest`, 'commonjs', checkCommand('ECONNREFUSED'), [...NEST, ...others],
  ]),
  ['the command names which client to install', 'commonjs', checkCommand('npm install ioredis'), [...NEST, ...CLIENTS]],
  ['an ES module imports it', 'module', IMPORT + CHECK_NAMES],
  ['import and require give the same classes', 'module', MODULE + CHECK_COPIES],
  ['a CommonJS module requires it', 'commonjs', REQUIRE + CHECK_NAMES],
  ['its CommonJS files load', 'commonjs', REQUIRE_COMMONJS + CHECK_NAMES],
];

/** Packs this repository into a folder and prints one line. Returns the path of the tarball, or undefined. */
export function packTarball(folder, { built = false } = {}) {
  // An app that must do without a package would find it in a folder above its own.
  const above = createRequire(join(folder, 'index.js')).resolve.paths('ioredis').find(existsSync);
  if (above) throw new Error(`apps in ${folder} would find the packages of ${above}: delete it, or set TMPDIR`);
  const args = ['pack', '--silent', '--pack-destination', folder, ...(built ? ['--ignore-scripts'] : [])];
  const packed = check('npm pack', 'npm', args, root);
  const tarball = readdirSync(folder).find((name) => name.endsWith('.tgz'));
  return packed && tarball ? join(folder, tarball) : undefined;
}

function checkTarball(folder, tarball) {
  const tool = (title, path, ...args) =>
    check(title, process.execPath, [join(root, 'node_modules', path), ...args], folder);
  const used = APPS.map(([title, type, script, without = []], at) => {
    const app = createApp(join(folder, `app-${at}`), { type, tarball, without });
    writeFileSync(join(app, 'index.js'), script);
    return check(title, process.execPath, ['index.js'], app);
  });
  return [
    tool('publint', 'publint/src/cli.js', 'run', tarball, '--strict'),
    tool('attw', '@arethetypeswrong/cli/dist/index.js', tarball),
    ...used,
  ];
}

/** Makes an app with the package from the tarball, and its peers from this repository: nothing is downloaded. */
function createApp(app, { type, tarball, without }) {
  const modules = join(app, 'node_modules');
  const installed = join(modules, manifest.name);
  mkdirSync(installed, { recursive: true });
  execFileSync('tar', ['-xzf', tarball, '-C', installed, '--strip-components', '1']);
  for (const peer of Object.keys(manifest.peerDependencies).filter((name) => !without.includes(name))) {
    mkdirSync(dirname(join(modules, peer)), { recursive: true });
    symlinkSync(join(root, 'node_modules', peer), join(modules, peer), 'junction');
  }
  writeFileSync(join(app, 'package.json'), JSON.stringify({ name: 'app', type }));
  return app;
}

function check(title, command, args, cwd) {
  const { status, stdout, stderr, error } = spawnSync(command, args, { cwd, encoding: 'utf8' });
  return report(title, status === 0 ? [] : [`${stdout ?? ''}${stderr ?? ''}${error?.message ?? ''}`]);
}

const checkPackage = (folder) => {
  const tarball = packTarball(folder, { built: process.argv.includes('--built') });
  return countsOf(tarball ? [true, ...checkTarball(folder, tarball)] : [false]);
};

if (isStarted(import.meta.url)) await runChecks(() => withFolder(checkPackage));
