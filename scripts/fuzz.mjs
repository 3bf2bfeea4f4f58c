// Feeds the library with bad input: `npm run fuzz -- --seconds 60 --seed 7 --area keys`. Without a seed, it chooses a new one.
// Without seconds, each area runs as many cases as `npm test` does. Prints how many cases ran; a failing one is printed in
// its smallest form, and the command ends with status 1.
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const SPEC = /\.spec\.ts$/;

const { values } = parseArgs({
  options: {
    seconds: { type: 'string' },
    seed: { type: 'string' },
    area: { type: 'string' },
    case: { type: 'string' },
  },
});

const areas = readdirSync(join(root, 'test', 'fuzz'))
  .filter((name) => SPEC.test(name))
  .map((name) => name.replace(SPEC, ''))
  .filter((name) => values.area === undefined || name === values.area);
if (areas.length === 0) throw new Error(`There is no area "${values.area}".`);

const seed = values.seed ?? String(Date.now() % 1_000_000_007);
const folder = mkdtempSync(join(tmpdir(), 'fuzz-'));
const out = join(folder, 'cases');

/** The areas run one after the other, so that a seed finds the same within the same time. */
function run() {
  const share = values.seconds === undefined ? {} : { FUZZ_AREA_MS: String((values.seconds * 1_000) / areas.length) };
  const flags = ['--selectProjects', 'fuzz', '--runInBand', `--testPathPatterns=fuzz/(${areas.join('|')}).spec`];
  const only = values.case === undefined ? {} : { FUZZ_CASE: values.case };
  const env = { ...process.env, ...share, ...only, FUZZ_SEED: seed, FUZZ_OUT: out };
  return spawnSync('npm', ['run', '--silent', 'test:jest', '--', ...flags], { cwd: root, env, stdio: 'inherit' });
}

try {
  const { status } = run();
  const lines = existsSync(out) ? readFileSync(out, 'utf8').trim().split('\n') : [];
  const counts = lines.map((line) => JSON.parse(line));
  const total = counts.reduce((sum, { cases }) => sum + cases, 0);
  const text = counts.map(({ area, cases }) => `${area} ${cases.toLocaleString('en')}`).join(', ');
  console.log(`cases: ${text}; in all ${total.toLocaleString('en')}, seed ${seed}`);
  process.exitCode = status ?? 1;
} finally {
  rmSync(folder, { recursive: true, force: true });
}
