// Runs the library in simulated processes, networks and servers, in virtual time: see test/simulation/README.md.
import { spawnSync } from 'node:child_process';
import process from 'node:process';
import { createLoader } from '../test/simulation/library/typescript-loader.mjs';
import { UsageError, flag, oneOf, positive, runCommand, seed, text, whole } from './command.mjs';

// A run makes many objects that soon die. V8 reads this flag only when a process starts.
const V8_FLAG = '--max-semi-space-size=32';
if (!process.execArgv.includes(V8_FLAG)) {
  const { status } = spawnSync(process.execPath, [V8_FLAG, ...process.argv.slice(1)], { stdio: 'inherit' });
  process.exit(status ?? 1);
}

const { BUGS, PROFILE_NAMES, printBugs, simulate } = createLoader()('test/simulation/command.ts');

const usage = `Usage: node scripts/simulate.mjs [options]
  --seconds N, --runs N   how long, or how many runs (one run)
  --seed N                the first seed (1: the runs that failed once come first)
  --profile NAME          this profile only; without it, seeds take the profiles in turn
  --trace FILE            writes the log of the last run, or of the smallest run that breaks a rule
  --hash                  prints the digest of each run
  --shrink N              how many runs may be spent on making a run that breaks a rule smaller (300)
  --bugs                  looks for the planted bugs instead
  --seeds N, --only WORD  with --bugs: up to N seeds, whatever a bug says; only bugs whose names contain this`;

const MOST = 1e9;
const options = {
  seconds: positive(),
  runs: whole(1, MOST),
  seed: { ...seed, byDefault: 1 },
  profile: oneOf(PROFILE_NAMES),
  trace: text,
  hash: flag,
  shrink: whole(0, MOST, 300),
  bugs: flag,
  seeds: whole(1, MOST),
  only: text,
};

await runCommand({ usage, options }, async (values) => {
  const { bugs, seeds, only } = values;
  const extra = Object.entries({ seeds, only }).find(([, value]) => value !== undefined);
  if (extra && !bugs) throw new UsageError(`--${extra.join(' ')}: expected with --bugs.`);
  if (only !== undefined && !BUGS.some(({ name }) => name.includes(only)))
    throw new UsageError(`--only ${only}: expected a part of the name of a bug.`);
  process.exitCode = await (bugs ? printBugs(values) : simulate(values));
});
