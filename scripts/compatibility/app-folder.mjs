// Makes an app from its own files, the files that all apps share, and the tarball.
import { spawnSync } from 'node:child_process';
import { copyFileSync, cpSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const TEMPLATES = join(dirname(dirname(dirname(fileURLToPath(import.meta.url)))), 'test', 'package', 'apps');
const SHARED = join(TEMPLATES, 'common');

/** Apps with another library of clients than ioredis. */
const CLIENT_APPS = ['iovalkey', 'node-redis', 'node-redis-5'];

/** Returns the entries besides the main one. An entry that is just a file, such as package.json, is not code. */
function subpathsOf({ exports = {} }) {
  const entries = Object.entries(exports).filter(([name, target]) => name !== '.' && typeof target === 'object');
  return entries.map(([name]) => name.replace('./', ''));
}

/** Reads the package.json inside a tarball. */
export function manifestOf(tarball) {
  const { status, stdout, stderr } = spawnSync('tar', ['-xzOf', tarball, 'package/package.json'], { encoding: 'utf8' });
  if (status !== 0) throw new Error(`Cannot read ${tarball}: ${stderr}`);
  return JSON.parse(stdout);
}

/** Fills an empty folder with the app of that name. */
export function createApp(name, folder, tarball, manifest) {
  cpSync(join(TEMPLATES, name), folder, { recursive: true });
  const source = join(folder, 'src');
  if (!existsSync(source)) return;
  copyFileSync(tarball, join(folder, 'package.tgz'));
  if (CLIENT_APPS.includes(name)) return addAnyClient(source);
  cpSync(join(SHARED, 'src'), source, { recursive: true });
  const subpaths = subpathsOf(manifest);
  const lines = subpaths.map((subpath) => `export * as ${subpath} from '${manifest.name}/${subpath}';\n`);
  writeFileSync(join(source, 'entries.ts'), lines.join('') || 'export {};\n');
  if (subpaths.includes('testing')) cpSync(join(SHARED, 'testing'), source, { recursive: true });
  if (name === 'lowest-peers') addLowestPeers(join(folder, 'package.json'), manifest.peerDependencies);
}

/** The files that import no library of clients. */
function addAnyClient(source) {
  cpSync(join(SHARED, 'any-client'), source, { recursive: true });
  copyFileSync(join(SHARED, 'src', 'report.ts'), join(source, 'report.ts'));
}

/** Adds the first version of each range, because the package says that it works with it. */
function addLowestPeers(file, peers) {
  const app = JSON.parse(readFileSync(file, 'utf8'));
  for (const [name, range] of Object.entries(peers)) app.dependencies[name] = /\d+\.\d+\.\d+/.exec(range)[0];
  writeFileSync(file, JSON.stringify(app, undefined, 2));
}

/** Returns the version of an installed package. */
export function versionOf(folder, name) {
  const file = join(folder, 'node_modules', name, 'package.json');
  return existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')).version : '(not installed)';
}
