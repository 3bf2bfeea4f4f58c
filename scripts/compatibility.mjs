// Installs the packed package into apps outside this repository, then builds, tests and runs them with the versions of Nest,
// ioredis, TypeScript and Node, the test runners and the bundlers that users have (scripts/compatibility/matrix.mjs).
//   node scripts/compatibility.mjs [app…] [package.tgz]
// Without a tarball, it packs dist as it is. Without the name of an app, it runs all of them.
import { resolve } from 'node:path';
import process from 'node:process';
import { runChecks } from './checks.mjs';
import { APPS } from './compatibility/matrix.mjs';
import { Steps } from './compatibility/steps.mjs';
import { endOnSignals } from './follow.mjs';
import { packTarball } from './package-check.mjs';
import { makeFolder, provideRedis } from './redis.mjs';

/** Variables that npm and Node would read as settings of the apps. */
const FOREIGN = /^(npm_(package|lifecycle|command|config_(workspace|local_prefix))|NODE_OPTIONS$|FORCE_COLOR$)/;

/** Prints one line per check. */
async function runApps(names, given) {
  // The server and the folder end with this process.
  const folder = makeFolder().path;
  const tarball = given ? resolve(given) : packTarball(folder, { built: true });
  if (!tarball) return { passed: 0, failed: 1, skipped: 0 };
  const redis = await provideRedis();
  const inherited = Object.entries(process.env).filter(([name]) => !FOREIGN.test(name));
  const env = { ...Object.fromEntries(inherited), NO_COLOR: '1', CI: '1', REDIS_URL: redis.url };
  const steps = new Steps({ folder, tarball, env });
  await Promise.all(names.map((name) => steps.runApp(name, APPS[name])));
  await redis.stop();
  return steps.counts;
}

const args = process.argv.slice(2);
const tarball = args.find((arg) => arg.endsWith('.tgz'));
const names = args.filter((arg) => arg !== tarball);
const unknown = names.filter((name) => !APPS[name]);
if (unknown.length > 0) {
  console.error(`No app ${unknown.join(', ')}; there are ${Object.keys(APPS).join(', ')}.`);
  process.exit(1);
}
endOnSignals();
await runChecks(() => runApps(names.length > 0 ? names : Object.keys(APPS), tarball));
