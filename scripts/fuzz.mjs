// Feeds the library with bad input: `npm run fuzz -- --seconds 60 --seed 7 --area keys`. Without a seed, it chooses a new one.
// Without seconds, each area runs as many cases as `npm test` does. Prints how many cases ran; a failing one is printed in
// its smallest form, and the command ends with status 1.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';
import { UsageError, newSeed, oneOf, positive, refuseWords, runCommand, seed } from './command.mjs';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const SPEC = /\.spec\.ts$/;
const AREAS = readdirSync(join(root, 'test', 'fuzz'))
  .filter((name) => SPEC.test(name))
  .map((name) => name.replace(SPEC, ''));

const usage = `Usage: npm run fuzz -- [options]
  --seconds N   how long, for all areas together
  --seed N      determines the cases (new; it is printed)
  --area ${AREAS.join('|')}
  --case N      only this case, which a failure has printed; needs --area and --seed`;

const options = {
  seconds: positive(),
  seed,
  area: oneOf(AREAS),
  case: {
    expected: 'a number, or several with colons between them',
    read: (value) => (/^\d+(:\d+)*$/.test(value) ? value : undefined),
  },
};

/** The areas run one after the other, so that a seed finds the same within the same time. */
function run(areas, { seconds, seed, case: only }, out) {
  const share = seconds === undefined ? {} : { FUZZ_AREA_MS: String((seconds * 1_000) / areas.length) };
  const flags = ['--selectProjects', 'fuzz', '--runInBand', `--testPathPatterns=fuzz/(${areas.join('|')}).spec`];
  const one = only === undefined ? {} : { FUZZ_CASE: only };
  const env = { ...process.env, ...share, ...one, FUZZ_SEED: String(seed), FUZZ_OUT: out };
  return spawnSync('npm', ['run', '--silent', 'test:jest', '--', ...flags], { cwd: root, env, stdio: 'inherit' })
    .status;
}

function printCounts(out, seed) {
  const lines = existsSync(out) ? readFileSync(out, 'utf8').trim().split('\n') : [];
  const counts = lines.map((line) => JSON.parse(line));
  const total = counts.reduce((sum, { cases }) => sum + cases, 0);
  const text = counts.map(({ area, cases }) => `${area} ${cases.toLocaleString('en')}`).join(', ');
  console.log(`cases: ${text}; in all ${total.toLocaleString('en')}, seed ${seed}`);
}

await runCommand({ usage, options }, (values, words) => {
  refuseWords(words);
  const { area, seconds, case: only } = values;
  if (only !== undefined && (!area || values.seed === undefined || seconds)) {
    throw new UsageError(`--case ${only}: expected with --area and --seed, and without --seconds.`);
  }
  const seed = values.seed ?? newSeed();
  const folder = mkdtempSync(join(tmpdir(), 'fuzz-'));
  const out = join(folder, 'cases');
  try {
    process.exitCode = run(area ? [area] : AREAS, { ...values, seed }, out) ?? 1;
    printCounts(out, seed);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
