// Simulates the formal models in test/model, and refutes their mutants, with Quint: `node scripts/model.mjs --help`.
// Quint runs in TypeScript alone: no Java, and no download but that of npm.
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import process from 'node:process';
import { promisify } from 'node:util';
import pLimit from 'p-limit';
import { LOCK, MODELS, MUTANT_SAMPLES, MUTANT_SEED, REACH, RUNS_SEED } from '../test/model/models.mjs';
import { createLoader } from '../test/simulation/library/typescript-loader.mjs';
import { countsOf, readJson, root, runChecks, withFolder } from './checks.mjs';
import { UsageError, ensurePackages, flag, newSeed, positive, runCommand, seed } from './command.mjs';

/** Few enough that a run ends soon after its time. */
const FIRST_SAMPLES = 100;
/** Two cores are usual where checks run. */
const atMostTwo = pLimit(2);

const folder = join(root, 'test', 'model');
const quintFolder = join(folder, 'node_modules', '@informalsystems', 'quint', 'dist', 'src');
const quint = join(quintFolder, 'cli.js');
const fileOf = ({ name }) => join(folder, `${name}.qnt`);
const sum = (values) => values.reduce((a, b) => a + b, 0);
const secondsSince = (start) => ((performance.now() - start) / 1000).toFixed(0);

/** Simulates `file`; throws when it is not a model, or when Quint fails in another way. */
async function simulate(file, { samples, steps, seed, invariants, witnesses = [], more = [] }) {
  const args = ['--max-samples', samples, '--max-steps', steps, '--seed', seed, '--verbosity', 2];
  const names = ['--invariants', ...invariants, ...(witnesses.length > 0 ? ['--witnesses', ...witnesses] : [])];
  const command = [quint, 'run', '--backend=typescript', file, ...args, ...more, ...names].map(String);
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

const loadTraces = () => createLoader()('test/model/traces.ts');

/** The text of lock.qnt as a function: at which of its steps a trace of a server differs from the model, -1 if at none. */
function lockModel(text) {
  const load = createRequire(join(quintFolder, 'index.js'));
  const ids = load('./idGenerator.js').newIdGenerator();
  const source = load('./parsing/sourceResolver.js').fileSourceResolver().lookupPath(folder, 'lock.qnt');
  const { errors, modules, table } = load('./parsing/quintParserFrontend.js').parse(ids, fileOf(LOCK), source, text);
  if (errors.length > 0) throw new Error(errors.map(({ message }) => message).join('\n'));
  const verdict = modules.at(-1).declarations.find(({ name }) => name === 'verdict').expr;
  const rng = load('./rng.js').newRng(1);
  const { Evaluator } = load('./runtime/impl/evaluator.js');
  const { newTraceRecorder } = load('./runtime/trace.js');
  const { expressionOf } = loadTraces();
  return (steps) => {
    const args = [expressionOf(steps, () => ids.nextId())];
    const result = new Evaluator(table, newTraceRecorder(0, rng), rng).evaluate({ ...verdict, args });
    if (result.isLeft()) throw new Error(result.value.message);
    const fields = result.value.args;
    const at = fields[fields.findIndex(({ value }) => value === 'at') + 1];
    return { at: Number(at.value), model: load('./ir/IRprinting.js').expressionToString(result.value) };
  };
}

const lockText = () => readFileSync(fileOf(LOCK), 'utf8');
const shown = (value) => JSON.stringify(value, (_, part) => (part instanceof Set ? [...part] : part));

/** Whether the servers of a run of each profile do what the model does. */
async function serversFollow(seed) {
  const { PROFILES, tracesOf } = loadTraces();
  const compare = lockModel(lockText());
  const start = performance.now();
  /** @type {string[]} */
  const found = [];
  let steps = 0;
  for (const profile of PROFILES)
    for (const trace of await tracesOf(seed, profile)) {
      steps += trace.steps.length;
      const { at, model } = compare(trace.steps);
      if (at >= 0) found.push(`${trace.name}: step ${at} is ${shown(trace.steps[at])}; the model has ${model}`);
    }
  console.log(`servers, seed ${seed}: ${steps} steps of ${PROFILES.length} runs in ${secondsSince(start)} s`);
  for (const one of found) console.log(`  DIFFERS ${one}`);
  return found.length === 0 && steps > 0;
}

/** Commands that the model makes. */
const modelTraces = (seed) =>
  withFolder(async (traces) => {
    const samples = 20;
    const more = ['--n-traces', samples, '--out-itf', join(traces, '{seq}.json')];
    await simulate(fileOf(LOCK), { ...LOCK, witnesses: [], samples, seed, more });
    const { valueOf } = loadTraces();
    return readdirSync(traces).map((name) => {
      return valueOf(readJson(traces, name).states)
        .slice(1)
        .map(({ last }) => last);
    });
  });

/** The first step of these traces that the scripts do otherwise; null if they do all. */
async function scriptsDiffer(traces, mutant) {
  const { firstDifference, scriptsWith } = loadTraces();
  for (const steps of traces) {
    const difference = await firstDifference(steps, scriptsWith(mutant));
    if (difference) return difference;
  }
  return null;
}

async function scriptsFollow(seed) {
  const traces = await modelTraces(seed);
  const difference = await scriptsDiffer(traces);
  console.log(`scripts, seed ${seed}: ${sum(traces.map((steps) => steps.length))} steps of ${traces.length} traces`);
  if (difference) console.log(`  DIFFERS ${shown(difference)}`);
  return !difference && traces.length > 0;
}

/** Compares the code with the model, both ways. */
async function compareAll(seconds, firstSeed) {
  const [start, results] = [performance.now(), []];
  for (let seed = firstSeed; results.length === 0 || performance.now() - start < seconds * 1000; seed += 1) {
    console.log(`node scripts/model.mjs --traces --seconds ${seconds} --seed ${seed}`);
    results.push(await serversFollow(seed), await scriptsFollow(seed));
  }
  return results;
}

const isFound = (name, found) => {
  console.log(`${name}: ${found ? 'differs' : 'SURVIVES'}`);
  return found;
};

/** Whether the comparisons find a rule that is missing: in the model, and in the scripts. */
async function findAll() {
  const { PROFILES, SCRIPT_MUTANTS, tracesOf } = loadTraces();
  const traces = [];
  for (const profile of PROFILES) traces.push(...(await tracesOf(RUNS_SEED, profile)));
  const results = LOCK.mutants.map(({ name, find, replace }) => {
    const compare = lockModel(lockText().replace(find, () => replace));
    return isFound(
      `lock: ${name}`,
      traces.some(({ steps }) => compare(steps).at >= 0),
    );
  });
  const commands = await modelTraces(MUTANT_SEED);
  for (const name of SCRIPT_MUTANTS)
    results.push(isFound(`scripts: ${name}`, (await scriptsDiffer(commands, name)) !== null));
  return results;
}

const refuteAll = () =>
  withFolder(async (folderOfMutants) => {
    const others = MODELS.filter((model) => model !== LOCK);
    const mutants = others.flatMap((model) => model.mutants.map((mutant) => [model, mutant]));
    const refuted = mutants.map((pair) => atMostTwo(() => isRefuted(...pair, folderOfMutants)));
    return [...(await Promise.all([...refuted, ...MODELS.map(isReached)])), ...(await findAll())];
  });

const usage = `Usage: node scripts/model.mjs [options]
  --seconds N   how long random traces of each model are made (60)
  --seed N      determines them (random; it is printed)
  --traces      compares the code with lock.qnt instead: what simulated servers do is a trace of the model, and the scripts do
                what traces of the model do
  --mutants     each model without one of its rules must violate an invariant, or differ from the code`;

const options = { seconds: positive(), seed, traces: flag, mutants: flag };

await runCommand({ usage, options }, async (values) => {
  const { mutants, traces, seconds = 60, seed = newSeed() } = values;
  if (mutants && (traces || values.seconds !== undefined || values.seed !== undefined))
    throw new UsageError('--mutants: expected without other options.');
  ensurePackages(folder);
  await runChecks(async () => {
    if (mutants) return countsOf(await refuteAll());
    return countsOf(await (traces ? compareAll : simulateAll)(seconds, seed));
  });
});
