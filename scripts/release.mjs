// Publishes the package: `npm run release -- --help`. README's links lead to files of the repository, which the page of a registry
// does not have, so the package gets a README whose links lead to the forge. The working tree stays as it is.
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { forgeOf } from '../site/repository-links.mjs';
import { isStarted, manifest, root, withFolder } from './checks.mjs';
import { UsageError, flag, mustRun, runCommand } from './command.mjs';
import { packTarball } from './package-check.mjs';

const usage = `Usage: npm run release -- [options]
  --publish   publishes; without it, npm prints what it would publish
package.json needs \`repository\`: the links of README use it, and npm verifies the origin of the package with it.`;

const options = { publish: flag, plain: flag };

/**
 * The address of the repository on its forge.
 * @throws {UsageError} if package.json does not name it
 */
export function addressOf({ repository }) {
  const address = forgeOf(repository);
  if (address !== undefined) return address;
  throw new UsageError(
    'package.json: expected `repository` to be the address of the forge, such as { "type": "git", "url": ' +
      `"git+https://forge.example/owner/nestjs-redis-lock.git" }, got ${JSON.stringify(repository)}. Nothing is published without it.`,
  );
}

/** How long the registry may take to answer. */
const REGISTRY_WITHIN_MS = 60_000;

/**
 * Checks that the name of the package is free, or belongs to this repository, and that this version is new.
 * @throws {UsageError} if either is taken, or if the registry does not answer
 */
export async function checkName({ name, version, address, registry }) {
  const url = `${registry.replace(/\/$/, '')}/${name.replace('/', '%2f')}`;
  const signal = AbortSignal.timeout(REGISTRY_WITHIN_MS);
  const answer = await fetch(url, { signal }).catch((error) => ({ error }));
  if (answer.status === 404) return;
  if (!answer.ok) {
    const got = answer.error ? (answer.error.cause ?? answer.error).message : `status ${answer.status}`;
    throw new UsageError(
      `${url}: expected the package of that name, or 404, got ${got}. Nothing is published while the name may be taken: try again.`,
    );
  }
  const { repository, versions = {} } = await answer.json();
  if (forgeOf(repository) !== address) {
    const owner = JSON.stringify(repository?.url ?? repository ?? 'no repository');
    throw new UsageError(
      `${url}: expected the name ${name} to be free or to belong to ${address}, got a package of ${owner}. ` +
        'Choose another `name` in package.json, such as one with a scope.',
    );
  }
  if (versions[version]) {
    throw new UsageError(
      `${url}: expected a new version, got ${version}, which is published. Raise it in package.json.`,
    );
  }
}

/** The text with links that lead from anywhere to the files of one version; code and links within the text stay. */
export function withAbsoluteLinks(markdown, address, version) {
  const parts = markdown.split(/(^```[^]*?^```$)/m);
  const absolute = (part) =>
    part.replace(/(!?)\[((?:[^[\]]|\[[^\]]*\])*)\]\((?!#|[a-z][a-z+.-]*:)([^)\s]+)\)/gi, (_, image, text, path) => {
      const kind = image ? 'raw' : 'blob';
      return `${image}[${text}](${address}/${kind}/v${version}/${path})`;
    });
  return parts.map((part, i) => (i % 2 === 0 ? absolute(part) : part)).join('');
}

const release = (publish) =>
  withFolder(async (folder) => {
    const address = addressOf(manifest);
    const registry = execFileSync('npm', ['config', 'get', 'registry'], { cwd: root, encoding: 'utf8' }).trim();
    await checkName({ name: manifest.name, version: manifest.version, address, registry });
    const tarball = packTarball(folder);
    if (!tarball) throw new UsageError('The package could not be packed.');
    mustRun('tar', ['-xzf', tarball, '-C', folder]);
    const readme = join(folder, 'package', 'README.md');
    writeFileSync(readme, withAbsoluteLinks(readFileSync(readme, 'utf8'), address, manifest.version));
    const how = publish ? ['--provenance'] : ['--dry-run'];
    // The work of its scripts is already done.
    mustRun('npm', ['publish', join(folder, 'package'), '--access', 'public', '--ignore-scripts', ...how]);
  });

if (isStarted(import.meta.url)) {
  await runCommand({ usage, options }, ({ publish, plain }) => {
    // npm runs it with --plain before it publishes from this folder.
    if (plain)
      throw new UsageError(
        'npm publish: expected `npm run release -- --publish`, with which the links of README lead to the forge.',
      );
    return release(publish);
  });
}
