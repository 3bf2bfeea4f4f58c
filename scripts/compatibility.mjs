// Installs the packed package into apps outside this repository, then builds, tests and runs them with the versions of Nest,
// ioredis, TypeScript and Node, the test runners and the bundlers that users have (scripts/compatibility/matrix.mjs).
//   node scripts/compatibility.mjs [app…] [package.tgz]
// Without a tarball, it packs dist as it is. Without the name of an app, it runs all of them.
import { resolve } from 'node:path';
import process from 'node:process';
import { isStarted } from './checks.mjs';
import { manifestOf } from './compatibility/app-folder.mjs';
import { plainEnvironment } from './compatibility/children.mjs';
import { APPS } from './compatibility/matrix.mjs';
import { Steps } from './compatibility/steps.mjs';
import { packTarball } from './package-check.mjs';
import { makeFolder, provideRedis } from './redis.mjs';

/** Prints one line per check; returns `{ passed, failed, skipped }`. */
export async function runCompatibility({ tarball, apps = Object.keys(APPS) } = {}) {
  const folder = makeFolder();
  const interrupt = () => process.exit(130);
  // The children, the server and the folder end with this process.
  for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, interrupt);
  try {
    return await checkApps(folder.path, tarball ?? packTarball(folder.path, { built: true }), apps);
  } finally {
    for (const signal of ['SIGINT', 'SIGTERM']) process.off(signal, interrupt);
    folder.remove();
  }
}

async function checkApps(folder, tarball, apps) {
  if (!tarball) return { passed: 0, failed: 1, skipped: 0 };
  const redis = await provideRedis();
  try {
    const env = plainEnvironment({ REDIS_URL: redis.url });
    const steps = new Steps({ folder, tarball, manifest: manifestOf(tarball), env });
    await Promise.all(apps.map((name) => steps.runApp(name, APPS[name])));
    return steps.counts;
  } finally {
    await redis.stop();
  }
}

async function main(args) {
  const tarball = args.find((arg) => arg.endsWith('.tgz'));
  const names = args.filter((arg) => arg !== tarball);
  const unknown = names.filter((name) => !APPS[name]);
  if (unknown.length > 0) throw new Error(`No app ${unknown.join(', ')}; there are ${Object.keys(APPS).join(', ')}.`);
  const given = { ...(tarball && { tarball: resolve(tarball) }), ...(names.length > 0 && { apps: names }) };
  const { passed, failed, skipped } = await runCompatibility(given);
  console.log(`${passed} passed, ${failed} failed, ${skipped} skipped`);
  process.exitCode = failed > 0 ? 1 : 0;
}

if (isStarted(import.meta.url)) {
  await main(process.argv.slice(2)).catch((error) => {
    console.error(error.message);
    process.exitCode = 1;
  });
}
