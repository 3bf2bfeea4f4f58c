// Loads locks for an hour, with a failover each minute, and checks whether anything grows:
// `node scripts/soak.mjs --minutes 60 --seed 7`. Ends with status 1 if something grows, or if a promise was broken.
import { register } from 'node:module';
import process from 'node:process';
import {
  UsageError, ensureBuilt, newSeed, oneOf, positive, runCommand, seed, whole,
} from './command.mjs'; // prettier-ignore
import { endOnSignals } from './follow.mjs';

register('../test/support/jest/hooks.mjs', import.meta.url);
const { soak, SOAK_TOPOLOGIES, PLANTS } = await import('../test/chaos/soak/soak.ts');
const { MIN_SAMPLES, table } = await import('../test/chaos/soak/verdict.ts');

const usage = `Usage: node scripts/soak.mjs [options]
  --minutes N               how long (60)
  --seed N                  determines the calls and when the failovers come (random; it is printed)
  --topology ${SOAK_TOPOLOGIES.join('|')}   (sentinel)
  --workers N, --lanes N    processes, and calls at a time in each (3 and 3)
  --every SECONDS           how often everything is measured (60)
  --plant ${PLANTS.join('|')}   plants a leak, which must be found`;

const options = {
  minutes: positive(60),
  seed,
  topology: oneOf(SOAK_TOPOLOGIES, 'sentinel'),
  workers: whole(1, 50, 3),
  lanes: whole(1, 50, 3),
  every: positive(60),
  plant: oneOf(PLANTS),
};

/** Too few measurements show nothing. */
function refuseShort({ minutes, every }) {
  const least = (MIN_SAMPLES * every) / 60;
  if (minutes < least) {
    throw new UsageError(`--minutes ${minutes}: expected at least ${least}, for ${MIN_SAMPLES} measurements.`);
  }
}

await runCommand({ usage, options }, async (values) => {
  refuseShort(values);
  ensureBuilt();
  endOnSignals();
  const { topology, minutes, every, plant, workers, lanes, seed = newSeed() } = values;
  const further = ['workers', 'lanes', 'every', 'plant'].filter((name) => values[name] !== options[name].byDefault);
  const flags = further.map((name) => `--${name} ${values[name]}`);
  const command = ['node scripts/soak.mjs', `--topology ${topology} --minutes ${minutes} --seed ${seed}`, ...flags].join(' '); // prettier-ignore
  console.log(command);
  const result = await soak({ topology, minutes, seed, plant, workers, lanes, everyMs: 1_000 * every });
  const growing = result.verdicts.filter((verdict) => verdict.result === 'growing');
  console.log(`\n${table(result.verdicts)}\n\n${result.summary}`);
  for (const { source, name } of growing) console.log(`growing: ${name} of ${source}`);
  const isGood = growing.length === 0 && result.violations.length === 0;
  console.log(isGood ? 'Nothing grows.' : 'The soak test failed.');
  process.exit(isGood ? 0 : 1);
});
