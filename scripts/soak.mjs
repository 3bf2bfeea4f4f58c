// Loads locks for an hour, with a failover each minute, and judges whether anything grows:
// `npm run soak -- --minutes 60 --seed 7`. Ends with status 1 if something grows, or if a promise was broken.
import { spawnSync } from 'node:child_process';
import { existsSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import './typescript.mjs';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const { soak, SOAK_TOPOLOGIES, PLANTS } = await import('../test/chaos/soak/soak.ts');
const { MIN_SAMPLES } = await import('../test/chaos/soak/verdict.ts');
const { table } = await import('../test/chaos/soak/text.ts');
const { curves } = await import('../test/chaos/soak/curves.ts');
const { writeSection } = await import('../test/chaos/soak/document.ts');

const USAGE = `Usage: npm run soak -- [options]
  --minutes N               how long (60)
  --seed N                  determines the calls and when the failovers come (random; it is printed)
  --topology ${SOAK_TOPOLOGIES.join('|')}   (sentinel)
  --workers N, --lanes N    processes, and calls at a time in each (3 and 3)
  --every SECONDS           how often everything is measured (60)
  --plant ${PLANTS.join('|')}   plants a leak, which must be found
  --out FILE.svg            writes the curves
  --document FILE.md        writes the section between its marks; needs --out`;

const text = { type: 'string' };
const { values } = parseArgs({
  options: {
    minutes: { ...text, default: '60' },
    seed: text,
    topology: { ...text, default: 'sentinel' },
    workers: { ...text, default: '3' },
    lanes: { ...text, default: '3' },
    every: { ...text, default: '60' },
    plant: text,
    out: text,
    document: text,
    help: { type: 'boolean', default: false },
  },
});

const { topology, plant, out, document } = values;
const minutes = Number(values.minutes);
const everyMs = 1_000 * Number(values.every);
const isWrong = !SOAK_TOPOLOGIES.includes(topology) || (plant && !PLANTS.includes(plant)) || (document && !out);
if (values.help || isWrong) {
  console.log(USAGE);
  process.exit(values.help ? 0 : 2);
}
if (!existsSync(join(root, 'dist', 'esm', 'index.js'))) {
  const built = spawnSync(process.execPath, [join(root, 'scripts', 'build.mjs')], { stdio: 'inherit' });
  if (built.status !== 0) process.exit(1);
}
// The exit handlers end the servers and the workers.
for (const [signal, status] of [['SIGINT', 130], ['SIGTERM', 143]]) process.once(signal, () => process.exit(status)); // prettier-ignore

if (!(minutes * 60_000 >= MIN_SAMPLES * everyMs)) {
  console.log(`${minutes} minutes are too short: a soak measures ${MIN_SAMPLES} times at least.`);
  process.exit(2);
}

const seed = Number(values.seed ?? Math.floor(Math.random() * 1e6));
const command = `npm run soak -- --topology ${String(topology)} --minutes ${minutes} --seed ${seed}`;
console.log(command);
const result = await soak({
  topology,
  minutes,
  seed,
  plant,
  workers: Number(values.workers),
  lanes: Number(values.lanes),
  everyMs,
});
const growing = result.verdicts.filter((verdict) => verdict.result === 'growing');
console.log(`\n${table(result.verdicts)}\n\n${result.summary}`);
if (out) writeFileSync(out, curves(result.verdicts));
if (document) writeSection(document, { command, picture: out, ...result });
for (const { source, name } of growing) console.log(`growing: ${name} of ${source}`);
const isGood = growing.length === 0 && result.violations.length === 0;
console.log(isGood ? 'Nothing grows.' : 'The soak has failed.');
process.exit(isGood ? 0 : 1);
