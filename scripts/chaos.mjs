// Breaks real servers, networks and processes under the built package, and judges what its locks did meanwhile:
// `npm run chaos -- --topology single --seconds 120 --seed 7`. Ends with status 1 if a promise was broken.
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { spawnSync } from 'node:child_process';
import './typescript.mjs';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const { run, TOPOLOGY_NAMES } = await import('../test/chaos/run.ts');

const USAGE = `Usage: npm run chaos -- [options]
  --topology ${TOPOLOGY_NAMES.join('|')}   (single)
  --seconds N, --minutes N   how long faults are inflicted (60 s)
  --seed N                   determines the faults and the calls (random; it is printed)
  --client nestjs-redis-lock|redlock|redis-semaphore
  --only 'fault,fault'       only these kinds of faults; 'none' for none
  --min-replicas N           on sentinel and cluster: a grant counts when so many replicas have confirmed it (0)
  --workers N, --lanes N     processes, and calls at a time in each (4 and 4)
  --keep                     keep the history`;

const text = { type: 'string' };
const { values } = parseArgs({
  options: {
    topology: { ...text, default: 'single' },
    client: { ...text, default: 'nestjs-redis-lock' },
    minutes: text,
    seconds: text,
    seed: text,
    only: text,
    workers: { ...text, default: '4' },
    lanes: { ...text, default: '4' },
    'min-replicas': { ...text, default: '0' },
    keep: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
});

const CLIENTS = ['nestjs-redis-lock', 'redlock', 'redis-semaphore'];
if (values.help || !TOPOLOGY_NAMES.includes(values.topology) || !CLIENTS.includes(values.client)) {
  console.log(USAGE);
  process.exit(values.help ? 0 : 2);
}
if (!existsSync(join(root, 'dist', 'esm', 'index.js'))) {
  const built = spawnSync(process.execPath, [join(root, 'scripts', 'build.mjs')], { stdio: 'inherit' });
  if (built.status !== 0) process.exit(1);
}
const peers = join(root, 'test', 'chaos', 'peers');
if (values.client !== 'nestjs-redis-lock' && !existsSync(join(peers, 'node_modules'))) {
  const install = ['install', '--no-package-lock', '--no-audit', '--no-fund', '--loglevel=error'];
  if (spawnSync('npm', install, { cwd: peers, stdio: 'inherit' }).status !== 0) process.exit(1);
}
// The exit handlers end the servers and the workers.
for (const [signal, status] of [['SIGINT', 130], ['SIGTERM', 143]]) process.once(signal, () => process.exit(status)); // prettier-ignore

const seed = Number(values.seed ?? Math.floor(Math.random() * 1e6));
const ms = 1_000 * (Number(values.seconds ?? 0) || 60 * Number(values.minutes ?? 1));
console.log(`chaos: ${String(values.client)} on ${String(values.topology)} for ${ms / 1_000} s, --seed ${seed}`);
const only = values.only?.split(',').map((name) => name.trim());
const isGood = await run({
  topology: values.topology,
  client: values.client,
  keep: values.keep,
  ms,
  seed,
  ...(only && { only }),
  workers: Number(values.workers),
  lanes: Number(values.lanes),
  minReplicas: Number(values['min-replicas']),
});
process.exit(isGood ? 0 : 1);
