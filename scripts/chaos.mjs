// Breaks real servers, networks and processes under the built package, and checks what its locks did meanwhile:
// `node scripts/chaos.mjs --topology single --seconds 120 --seed 7`. Ends with status 1 if a promise was broken.
import { register } from 'node:module';
import { join } from 'node:path';
import process from 'node:process';
import { root } from './checks.mjs';
import {
  UsageError, ensureBuilt, ensurePackages, flag, newSeed, oneOf, positive, runCommand, seed, text, whole,
} from './command.mjs'; // prettier-ignore
import { endOnSignals } from './follow.mjs';

register('../test/support/jest/hooks.mjs', import.meta.url);
const { run, CLIENTS, MAX_REPLICAS, OURS, TOPOLOGY_NAMES } = await import('../test/chaos/run.ts');

const usage = `Usage: node scripts/chaos.mjs [options]
  --topology ${TOPOLOGY_NAMES.join('|')}   (single)
  --seconds N                how long faults are inflicted (60)
  --seed N                   determines the faults and the calls (random; it is printed)
  --client ${CLIENTS.join('|')}
  --only 'fault,fault'       only these kinds of faults; 'none' for none
  --min-replicas N           on sentinel and cluster: a grant counts when this number of replicas has confirmed it (0)
  --workers N, --lanes N     processes, and calls at a time in each (4 and 4)
  --keep                     keeps the history`;

const options = {
  topology: oneOf(TOPOLOGY_NAMES, 'single'),
  client: oneOf(CLIENTS, OURS),
  seconds: positive(60),
  seed,
  only: text,
  workers: whole(1, 50, 4),
  lanes: whole(1, 50, 4),
  'min-replicas': whole(0, 100, 0),
  keep: flag,
};

/** Options that do not fit together. */
function refuseMisfits({ topology, client, 'min-replicas': minReplicas }) {
  // The adapters of the peers connect to URLs, or through sentinels.
  if (client !== OURS && topology === 'cluster') {
    throw new UsageError(`--topology cluster: expected another one for --client ${client}.`);
  }
  const most = client === OURS ? MAX_REPLICAS[topology] : 0;
  if (minReplicas > most) {
    throw new UsageError(`--min-replicas ${minReplicas}: expected ${most} at most for ${client} on ${topology}.`);
  }
}

await runCommand({ usage, options }, async (values) => {
  refuseMisfits(values);
  ensureBuilt();
  if (values.client !== OURS) ensurePackages(join(root, 'test', 'chaos', 'peers'));
  endOnSignals();
  const { topology, client, seconds, workers, lanes, keep, seed = newSeed(), 'min-replicas': minReplicas } = values;
  console.log(`chaos: ${client} on ${topology} for ${seconds} s, --seed ${seed}`);
  const only = values.only?.split(',').map((name) => name.trim());
  const ms = 1_000 * seconds;
  const isGood = await run({ topology, client, keep, seed, workers, lanes, minReplicas, ms, ...(only && { only }) });
  process.exit(isGood ? 0 : 1);
});
