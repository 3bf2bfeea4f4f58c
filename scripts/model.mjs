// Simulates the formal models in test/model, and refutes their mutants, with Quint: `node scripts/model.mjs --help`.
// Quint runs in TypeScript alone: no Java, and no download but that of npm.
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { promisify } from 'node:util';
import pLimit from 'p-limit';
import { MODELS, MUTANT_SAMPLES, MUTANT_SEED, REACH } from '../test/model/models.mjs';
import { countsOf, root, runChecks, withFolder } from './checks.mjs';
import { UsageError, ensurePackages, flag, newSeed, positive, runCommand, seed } from './command.mjs';

/** Few enough that a run ends soon after its time. */
const FIRST_SAMPLES = 100;
/** Two cores are usual where checks run. */
const atMostTwo = pLimit(2);

const folder = join(root, 'test', 'model');
const quint = join(folder, 'node_modules', '@informalsystems', 'quint', 'dist', 'src', 'cli.js');
const fileOf = ({ name }) => join(folder, `${name}.qnt`);
const sum = (values) => values.reduce((a, b) => a + b, 0);
const secondsSince = (start) => ((performance.now() - start) / 1000).toFixed(0);

/** Simulates `file`; throws when it is not a model, or when Quint fails in another way. */
async function simulate(file, { samples, steps, seed, invariants, witnesses = [] }) {
  const args = ['--max-samples', samples, '--max-steps', steps, '--seed', seed, '--verbosity', 2];
  const names = ['--invariants', ...invariants, ...(witnesses.length > 0 ? ['--witnesses', ...witnesses] : [])];
  const command = [quint, 'run', '--backend=typescript', file, ...args, ...names].map(String);
  // It ends with another status when an invariant is violated.
  const { stdout, stderr } = await promisify(execFile)(process.execPath, command, { maxBuffer: 1e9 }).catch((e) => e);
  const output = stdout + stderr;
  if (!/^\[(ok|violation)\]/m.test(output)) throw new Error(output);
  const counts = [...output.matchAll(/was witnessed in (\d+) trace\(s\) out of (\d+)/g)];
  const average = /average=([\d.]+)/.exec(output);
  return {
    samples,
    steps: Math.round(samples * Number(average?.[1] ?? 0)),
    violated: [...output.matchAll(/❌ (\w+)/g)].map(([, name]) => name),
    witnessed: counts.map(([, count]) => Number(count)),
    output,
  };
}

/** Simulates one model until its time is over, or an invariant is violated. Returns the results of its checks. */
async function simulateFor(model, seconds, firstSeed) {
  const start = performance.now();
  const left = () => seconds * 1000 - (performance.now() - start);
  const results = [];
  for (let samples = FIRST_SAMPLES, seed = firstSeed; results.length === 0 || left() > 0; seed += 1) {
    const before = performance.now();
    results.push(await simulate(fileOf(model), { ...model, samples, seed }));
    if (results.at(-1).violated.length > 0) break;
    const perMs = samples / (performance.now() - before);
    samples = Math.max(FIRST_SAMPLES, Math.floor((perMs * left()) / 2));
  }
  const { name, invariants, witnesses } = model;
  const { violated, output } = results.at(-1);
  const witnessed = witnesses.map((witness, i) => `${witness} ${sum(results.map((result) => result.witnessed[i]))}`);
  const [traces, steps] = ['samples', 'steps'].map((field) => sum(results.map((result) => result[field])));
  console.log(`${name}: ${traces} traces, ${steps} steps in ${secondsSince(start)} s`);
  for (const invariant of invariants) console.log(`  ${violated.includes(invariant) ? 'VIOLATED' : 'ok'} ${invariant}`);
  console.log(`  reached: ${witnessed.join(', ')}`);
  // With the trace.
  if (violated.length > 0) console.log(output);
  return invariants.map((one) => !violated.includes(one));
}

async function simulateAll(seconds, seed) {
  console.log(`node scripts/model.mjs --seconds ${seconds} --seed ${seed}`);
  return (await Promise.all(MODELS.map((model) => simulateFor(model, seconds, seed)))).flat();
}

/** Whether traces get far enough to prove something: each witness of the model comes true in some of them. */
async function isReached(model) {
  const { witnessed } = await simulate(fileOf(model), { ...model, ...REACH });
  const missing = model.witnesses.filter((_, i) => !witnessed[i]);
  console.log(`${model.name}: ${missing.length === 0 ? 'reaches all' : `NEVER REACHES ${missing.join(', ')}`}`);
  return missing.length === 0;
}

/** Whether the simulation finds that a rule is missing. */
async function isRefuted(model, { name, find, replace, samples = MUTANT_SAMPLES }, mutants) {
  const parts = readFileSync(fileOf(model), 'utf8').split(find);
  if (parts.length !== 2) throw new Error(`"${find}" does not occur exactly once in ${model.name}.qnt.`);
  const file = join(mkdtempSync(join(mutants, 'mutant-')), `${model.name}.qnt`);
  writeFileSync(file, parts.join(replace));
  const start = performance.now();
  const { steps, invariants } = model;
  const { violated } = await simulate(file, { steps, invariants, samples, seed: MUTANT_SEED });
  const outcome = violated.length > 0 ? `violates ${violated.join(', ')}` : `SURVIVES ${samples} traces`;
  console.log(`${model.name}: ${name}: ${outcome} (${secondsSince(start)} s)`);
  return violated.length > 0;
}

const refuteAll = () =>
  withFolder(async (folderOfMutants) => {
    const mutants = MODELS.flatMap((model) => model.mutants.map((mutant) => [model, mutant]));
    const refuted = mutants.map((pair) => atMostTwo(() => isRefuted(...pair, folderOfMutants)));
    return Promise.all([...refuted, ...MODELS.map(isReached)]);
  });

const usage = `Usage: node scripts/model.mjs [options]
  --seconds N   how long random traces of each model are made (60)
  --seed N      determines them (random; it is printed)
  --mutants     each model without one of its rules must violate an invariant`;

const options = { seconds: positive(), seed, mutants: flag };

await runCommand({ usage, options }, async (values) => {
  const { mutants, seconds = 60, seed = newSeed() } = values;
  if (mutants && (values.seconds !== undefined || values.seed !== undefined))
    throw new UsageError('--mutants: expected without other options.');
  ensurePackages(folder);
  await runChecks(async () => countsOf(await (mutants ? refuteAll() : simulateAll(seconds, seed))));
});
