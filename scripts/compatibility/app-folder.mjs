// Makes an app from its own files, the files that all apps share, and the tarball.
import { execFileSync } from 'node:child_process';
import { copyFileSync, cpSync, existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { readJson, root } from '../checks.mjs';

const TEMPLATES = join(root, 'test', 'package', 'apps');
const SHARED = join(TEMPLATES, 'common');

/** Apps with another library of clients than ioredis. */
const CLIENT_APPS = ['iovalkey', 'node-redis', 'node-redis-5'];

/** Fills an empty folder with the app of that name. */
export function createApp(name, folder, tarball) {
  cpSync(join(TEMPLATES, name), folder, { recursive: true });
  const source = join(folder, 'src');
  if (!existsSync(source)) return;
  copyFileSync(tarball, join(folder, 'package.tgz'));
  if (CLIENT_APPS.includes(name)) {
    // The files that import no library of clients.
    cpSync(join(SHARED, 'any-client'), source, { recursive: true });
    copyFileSync(join(SHARED, 'src', 'report.ts'), join(source, 'report.ts'));
    return;
  }
  const manifest = JSON.parse(execFileSync('tar', ['-xzOf', tarball, 'package/package.json'], { encoding: 'utf8' }));
  cpSync(join(SHARED, 'src'), source, { recursive: true });
  // An entry that is just a file, such as package.json, is not code.
  const entries = Object.entries(manifest.exports ?? {}).filter(
    ([key, target]) => key !== '.' && typeof target === 'object',
  );
  const subpaths = entries.map(([key]) => key.replace('./', ''));
  const lines = subpaths.map((subpath) => `export * as ${subpath} from '${manifest.name}/${subpath}';\n`);
  writeFileSync(join(source, 'entries.ts'), lines.join('') || 'export {};\n');
  if (subpaths.includes('testing')) cpSync(join(SHARED, 'testing'), source, { recursive: true });
  if (name === 'lowest-peers') addLowestPeers(join(folder, 'package.json'), manifest.peerDependencies);
}

/** Adds the first version of each range, because the package says that it works with it. */
function addLowestPeers(file, peers) {
  const app = readJson(file);
  for (const [name, range] of Object.entries(peers)) app.dependencies[name] = /\d+\.\d+\.\d+/.exec(range)[0];
  writeFileSync(file, JSON.stringify(app, undefined, 2));
}

/** Returns the version of an installed package. */
export function versionOf(folder, name) {
  const file = join(folder, 'node_modules', name, 'package.json');
  return existsSync(file) ? readJson(file).version : '(not installed)';
}
