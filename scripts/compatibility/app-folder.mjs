// Makes an app out of a template: its own files, those that all apps share, and the tarball.
import { spawnSync } from 'node:child_process';
import { copyFileSync, cpSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const TEMPLATES = join(dirname(dirname(dirname(fileURLToPath(import.meta.url)))), 'test', 'package', 'apps');
const SHARED = join(TEMPLATES, 'common');

/** The entries beside the main one; what is there as a file only is no code. */
function subpathsOf({ exports = {} }) {
  const entries = Object.entries(exports).filter(([name, target]) => name !== '.' && typeof target === 'object');
  return entries.map(([name]) => name.replace('./', ''));
}

/** What the package.json inside a tarball says. */
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
  cpSync(join(SHARED, 'src'), source, { recursive: true });
  const subpaths = subpathsOf(manifest);
  const lines = subpaths.map((subpath) => `export * as ${subpath} from '${manifest.name}/${subpath}';\n`);
  writeFileSync(join(source, 'entries.ts'), lines.join('') || 'export {};\n');
  if (subpaths.includes('testing')) cpSync(join(SHARED, 'testing'), source, { recursive: true });
  if (name === 'lowest-peers') addLowestPeers(join(folder, 'package.json'), manifest.peerDependencies);
}

/** The first version of each range: what the package says to work with has to be so. */
function addLowestPeers(file, peers) {
  const app = JSON.parse(readFileSync(file, 'utf8'));
  for (const [name, range] of Object.entries(peers)) app.dependencies[name] = /\d+\.\d+\.\d+/.exec(range)[0];
  writeFileSync(file, JSON.stringify(app, undefined, 2));
}

/** The version of an installed package. */
export function versionOf(folder, name) {
  const file = join(folder, 'node_modules', name, 'package.json');
  return existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')).version : '(not installed)';
}
