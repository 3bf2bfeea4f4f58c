// Simulates the formal models in test/model, and refutes their mutants:
//   npm run model -- [--seconds 60] [--seed 1]   random traces of each model
//   npm run model -- --mutants [part of a name]  each model without one of its rules must violate an invariant
//   npm run model -- --trace quorum 0x1f         the trace of a violation
import { randomInt } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { MODELS, MUTANT_SAMPLES, MUTANT_SEED, REACH } from '../test/model/models.mjs';
import { countsOf, runIfStarted } from './checks.mjs';
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
  const { violated } = await simulate(file, { steps, invariants, samples, seed: MUTANT_SEED, REACH });
  const took = ((performance.now() - start) / 1000).toFixed(0);
  const outcome = violated.length > 0 ? `violates ${violated.join(', ')}` : `SURVIVES ${samples} traces`;
  console.log(`${model.name}: ${name}: ${outcome} (${took} s)`);
  return violated.length > 0;
}

async function refuteAll(part) {
  const folder = mkdtempSync(join(tmpdir(), 'models-'));
  const open = MODELS.flatMap((model) => model.mutants.map((mutant) => ({ model, mutant }))).filter(({ mutant }) =>
    mutant.name.includes(part),
  );
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

const { values, positionals } = parseArgs({
  options: {
    seconds: { type: 'string', default: '60' },
    seed: { type: 'string', default: String(randomInt(1, 2 ** 31)) },
    mutants: { type: 'boolean', default: false },
    trace: { type: 'boolean', default: false },
  },
  allowPositionals: true,
});

async function check() {
  ensureQuint();
  if (values.mutants) return countsOf(await refuteAll(positionals[0] ?? ''));
  if (!values.trace) return countsOf(await simulateAll(Number(values.seconds), Number(values.seed)));
  await printTrace(
    MODELS.find(({ name }) => name === positionals[0]),
    positionals[1],
  );
  return countsOf([]);
}

await runIfStarted(import.meta.url, check);
