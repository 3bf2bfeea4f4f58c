// Feeds the library with bad input: `node scripts/fuzz.mjs --seconds 60 --seed 7 --area keys`. Without a seed, it chooses a new one.
// Without seconds, each area runs the same number of cases as `npm test`. Prints how many cases ran; a failing one is printed in
// its smallest form, and the command ends with status 1.
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { root, withFolder } from './checks.mjs';
import { UsageError, newSeed, oneOf, positive, runCommand, seed } from './command.mjs';

const specs = readdirSync(join(root, 'test', 'fuzz')).filter((name) => name.endsWith('.spec.ts'));
const AREAS = specs.map((name) => name.replace('.spec.ts', ''));

const usage = `Usage: node scripts/fuzz.mjs [options]
  --seconds N   how long, for all areas together
  --seed N      determines the cases (new; it is printed)
  --area ${AREAS.join('|')}
  --case N      only this case, which a failure has printed; needs --area and --seed`;

const options = {
  seconds: positive(),
  seed,
  area: oneOf(AREAS),
  case: { expected: 'numbers, with colons between them', read: (value) => value.match(/^\d+(:\d+)*$/)?.[0] },
};

/** The areas run one after the other, so that a seed finds the same within the same time. */
function run(areas, { seconds, seed, case: only }, out) {
  const env = { ...process.env, FUZZ_SEED: String(seed), FUZZ_OUT: out };
  if (seconds !== undefined) env.FUZZ_AREA_MS = String((seconds * 1_000) / areas.length);
  if (only !== undefined) env.FUZZ_CASE = only;
  const jest = join('node_modules', 'jest', 'bin', 'jest.js');
  const args = [jest, '--runInBand', `test/fuzz/(${areas.join('|')}).spec`];
  return spawnSync(process.execPath, args, { cwd: root, env, stdio: 'inherit' }).status;
}

function printCounts(out, seed) {
  const lines = existsSync(out) ? readFileSync(out, 'utf8').trim().split('\n') : [];
  const counts = lines.map((line) => JSON.parse(line));
  const total = counts.reduce((sum, { cases }) => sum + cases, 0);
  const text = counts.map(({ area, cases }) => `${area} ${cases.toLocaleString('en')}`).join(', ');
  console.log(`cases: ${text}; in all ${total.toLocaleString('en')}, seed ${seed}`);
}

await runCommand({ usage, options }, async (values) => {
  const { area, seconds, case: only, seed = newSeed() } = values;
  if (only !== undefined && (!area || values.seed === undefined || seconds)) {
    throw new UsageError(`--case ${only}: expected with --area and --seed, and without --seconds.`);
  }
  await withFolder((folder) => {
    const out = join(folder, 'cases');
    process.exitCode = run(area ? [area] : AREAS, { ...values, seed }, out) ?? 1;
    printCounts(out, seed);
  });
});
