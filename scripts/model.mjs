// Simulates the formal models in test/model, and refutes their mutants: `npm run model -- --help`.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { MODELS, MUTANT_SAMPLES, MUTANT_SEED, REACH } from '../test/model/models.mjs';
import { countsOf, runIfStarted } from './checks.mjs';
import { UsageError, flag, newSeed, oneOf, positive, refuseWords, runCommand, seed } from './command.mjs';
import { describeTrace, ensureQuint, modelFolder, simulate, traceOf } from './quint.mjs';

/** Few enough that a run ends soon after its time. */
const FIRST_SAMPLES = 100;
/** Two cores are usual where checks run. */
const MUTANTS_AT_A_TIME = 2;

const fileOf = ({ name }) => join(modelFolder, `${name}.qnt`);
const sum = (values) => values.reduce((a, b) => a + b, 0);

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
  return report(model, results, (performance.now() - start) / 1000);
}

async function report(model, results, seconds) {
  const { name, invariants, witnesses } = model;
  const { violated, seed } = results.at(-1);
  const witnessed = witnesses.map((_, i) => sum(results.map((result) => result.witnessed[i])));
  const traces = sum(results.map(({ samples }) => samples));
  console.log(`${name}: ${traces} traces, ${sum(results.map(({ steps }) => steps))} steps in ${seconds.toFixed(0)} s`);
  for (const invariant of invariants) console.log(`  ${violated.includes(invariant) ? 'VIOLATED' : 'ok'} ${invariant}`);
  console.log(`  reached: ${witnesses.map((witness, i) => `${witness} ${witnessed[i]}`).join(', ')}`);
  if (violated.length > 0) await printTrace(model, seed);
  return invariants.map((one) => !violated.includes(one));
}

async function printTrace(model, seed) {
  const states = await traceOf(fileOf(model), { ...model, seed });
  console.log(describeTrace(states).join('\n'));
  console.log(`Again: npm run model -- --trace ${model.name} ${seed}`);
}

async function simulateAll(seconds, seed) {
  console.log(`npm run model -- --seconds ${seconds} --seed ${seed}`);
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
async function isRefuted(model, { name, find, replace, samples = MUTANT_SAMPLES }, folder) {
  const text = readFileSync(fileOf(model), 'utf8');
  if (text.split(find).length !== 2) throw new Error(`"${find}" does not stand once in ${model.name}.qnt.`);
  const file = join(mkdtempSync(join(folder, 'mutant-')), `${model.name}.qnt`);
  writeFileSync(
    file,
    text.replace(find, () => replace),
  );
  const start = performance.now();
  const { steps, invariants } = model;
  const { violated } = await simulate(file, { steps, invariants, samples, seed: MUTANT_SEED });
  const took = ((performance.now() - start) / 1000).toFixed(0);
  const outcome = violated.length > 0 ? `violates ${violated.join(', ')}` : `SURVIVES ${samples} traces`;
  console.log(`${model.name}: ${name}: ${outcome} (${took} s)`);
  return violated.length > 0;
}

async function refuteAll(part) {
  const all = MODELS.flatMap((model) => model.mutants.map((mutant) => ({ model, mutant })));
  const open = all.filter(({ mutant }) => mutant.name.includes(part));
  if (open.length === 0) throw new UsageError(`--mutants ${part}: expected a part of the name of a mutant.`);
  ensureQuint();
  const folder = mkdtempSync(join(tmpdir(), 'models-'));
  const results = [];
  const work = async () => {
    for (let next = open.shift(); next; next = open.shift()) {
      results.push(await isRefuted(next.model, next.mutant, folder));
    }
  };
  try {
    await Promise.all(Array.from({ length: MUTANTS_AT_A_TIME }, work));
    if (part === '') results.push(...(await Promise.all(MODELS.map(isReached))));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
  return results;
}

const usage = `Usage: npm run model -- [options]
  --seconds N                          how long random traces of each model are made (60)
  --seed N                             determines them (random; it is printed)
  --mutants [part of a name]           each model without one of its rules must violate an invariant
  --trace ${MODELS.map(({ name }) => name).join('|')} SEED   prints the trace of a violation`;

const options = {
  seconds: positive(),
  seed,
  mutants: flag,
  trace: oneOf(MODELS.map(({ name }) => name)),
};

/** Refuses options that this way of use does not have. */
function refuseOthers(values, way) {
  const given = ['seconds', 'seed', 'mutants', 'trace'].filter((name) => values[name] !== options[name].byDefault);
  const other = given.find((name) => name !== way);
  if (other) throw new UsageError(`--${other}: expected without --${way}.`);
}

async function check(values, words) {
  if (values.mutants) {
    refuseOthers(values, 'mutants');
    refuseWords(words.slice(1));
    return refuteAll(words[0] ?? '');
  }
  if (values.trace) {
    refuseOthers(values, 'trace');
    refuseWords(words.slice(1));
    if (!/^0x[\da-f]+$/.test(words[0] ?? '')) {
      throw new UsageError(
        `--trace ${values.trace} ${words[0] ?? ''}: expected the seed of a violation, such as 0x1f.`,
      );
    }
    ensureQuint();
    await printTrace(MODELS.find(({ name }) => name === values.trace), words[0]); // prettier-ignore
    return [];
  }
  refuseWords(words);
  ensureQuint();
  return simulateAll(values.seconds ?? 60, values.seed ?? newSeed());
}

await runCommand({ usage, options }, (values, words) =>
  runIfStarted(import.meta.url, async () => countsOf(await check(values, words))),
);
