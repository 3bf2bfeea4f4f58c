// Publishes the package: `npm run release -- --help`. README's links lead to files of the repository, which the page of a registry
// does not have, so the package gets a README whose links lead to the forge. The working tree stays as it is.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { forgeOf } from '../site/repository-links.mjs';
import { isStarted, manifest, withFolder } from './checks.mjs';
import { UsageError, flag, mustRun, runCommand } from './command.mjs';
import { packTarball } from './package-check.mjs';

const usage = `Usage: npm run release -- [options]
  --publish   publishes; without it, npm says what it would publish
package.json needs \`repository\`: README's links are made from it, and npm proves by it where the package comes from.`;

const options = { publish: flag, plain: flag };

/**
 * The address of the repository on its forge.
 * @throws {UsageError} if package.json does not tell it
 */
export function addressOf({ repository }) {
  const address = forgeOf(repository);
  if (address !== undefined) return address;
  throw new UsageError(
    'package.json: expected `repository` to be the address of the forge, such as { "type": "git", "url": ' +
      `"git+https://forge.example/owner/nestjs-redis-lock.git" }, got ${JSON.stringify(repository)}. Nothing is published without it.`,
  );
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
  withFolder((folder) => {
    const address = addressOf(manifest);
    const tarball = packTarball(folder);
    if (!tarball) throw new UsageError('The package could not be packed.');
    mustRun('tar', ['-xzf', tarball, '-C', folder]);
    const readme = join(folder, 'package', 'README.md');
    writeFileSync(readme, withAbsoluteLinks(readFileSync(readme, 'utf8'), address, manifest.version));
    const how = publish ? ['--provenance'] : ['--dry-run'];
    // What its scripts would do has been done.
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
