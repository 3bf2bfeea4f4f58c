// Changes the TypeScript of the kernel in small ways, and checks that a test notices each change: see docs/verification.md.
import { fork } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import process from 'node:process';
import { ACCEPTED } from '../test/mutation/accepted.mjs';
import { mutate } from '../test/mutation/mutants.mjs';
import { readJson, root, withFolder } from './checks.mjs';
import { UsageError, newSeed, positive, runCommand, seed, text, whole } from './command.mjs';
import { endOnSignals, follow } from './follow.mjs';
import { provideRedis } from './redis.mjs';

const usage = `Usage: node scripts/mutants.mjs [options]
  --file PART       only files of the kernel whose path contains this
  --sample N        this number of mutants, chosen by the seed (all)
  --seed N          chooses the sample (random; it is printed)
  --only ID,ID,…    these mutants, by the numbers of the list of survivors
  --jobs N          how many run at the same time (1)
  --suites A,B      only these: units, simulation, contract
  --least PERCENT   ends with status 1 if fewer are found (90)`;

const options = {
  file: { ...text, byDefault: '' },
  sample: whole(1, 1e6),
  seed,
  only: text,
  jobs: whole(1, 64, 1),
  suites: text,
  least: positive(90),
};

/** What must notice a mutant, the fast ones first. Jest runs the files that reach it. */
const SUITES = [
  { name: 'units', paths: ['test/unit/core', 'test/unit/redis'] },
  { name: 'simulation', script: 'test/mutation/plans.mjs' },
  { name: 'contract', paths: ['test/contract'] },
];

/** In one process, which has the mutants; files that start other processes do not count, nor do those that need a quiet machine. */
const JEST = [
  join(root, 'node_modules/jest/bin/jest.js'),
  '--testPathIgnorePatterns=(process|quiet)\\.spec|/node_modules/',
  `--reporters=${join(root, 'test/mutation/reporter.mjs')}`,
  `--testSequencer=${join(root, 'test/mutation/sequencer.mjs')}`,
  // After options that take lists, Jest would read paths as parts of these.
  '-i',
];

/** A mutant that loops is ended after the time of its tests without it, times this; and never before this time. */
const SLOWER = 10;
const LEAST_LIMIT_MS = 60_000;
const NIGHT_MS = 6 * 3_600_000;

function kernelFiles() {
  const page = readFileSync(join(root, 'docs/verification.md'), 'utf8');
  const [, section = ''] = /^## The kernel\n([^]*?)^## /m.exec(page) ?? [];
  return [...section.matchAll(/`(lib\/[^`]+\.ts)`/g)].map(([, path]) => path);
}

const shown = (code) => code.replace(/\s+/g, ' ').slice(0, 120);

const isSame = (accepted) => (mutant) =>
  mutant.file === accepted.file && shown(mutant.was) === accepted.was && shown(mutant.becomes) === accepted.becomes;

/** Without those that change nothing. */
function withoutAccepted(all) {
  const stale = ACCEPTED.find((accepted) => !all.some(isSame(accepted)));
  if (stale) throw new UsageError(`test/mutation/accepted.mjs: expected mutants of the kernel, got "${stale.was}".`);
  return all.filter((mutant) => !ACCEPTED.some((accepted) => isSame(accepted)(mutant)));
}

/** Writes the mutated copies of all files; returns the mutants. */
function writeCopies(folder) {
  const all = [];
  for (const file of kernelFiles()) {
    const { mutants, copy } = mutate(file, readFileSync(join(root, file), 'utf8'), all.length);
    all.push(...mutants);
    mkdirSync(join(folder, dirname(file)), { recursive: true });
    writeFileSync(join(folder, file), copy);
  }
  return withoutAccepted(all);
}

/** A repeatable order: by a hash of the seed and the number. */
const rankOf = (id, seed) => Math.imul(Math.imul(id + 1, 0x9e3779b1) ^ (seed + 0x7f4a7c15), 0x85ebca6b) >>> 0;

function chosen(all, { file, sample = Infinity, only }, seed) {
  const ids = only && new Set(only.split(',').map(Number));
  const some = all.filter((mutant) => mutant.file.includes(file) && (!ids || ids.has(mutant.id)));
  if (some.length === 0)
    throw new UsageError(`${only ? `--only ${only}` : `--file ${file}`}: expected a mutant of the kernel.`);
  return some.toSorted((a, b) => rankOf(a.id, seed) - rankOf(b.id, seed)).slice(0, sample);
}

/** Runs a command to its end, or for this time; its status is null if it was ended. */
function runFor(args, env, limitMs = NIGHT_MS) {
  return follow(process.execPath, args, { cwd: root, env: { ...process.env, ...env }, limitMs, out: [] });
}

/** Tests of Jest, which run in one process for each mutant. */
class Tests {
  #known;

  constructor({ name, paths }, folder) {
    Object.assign(this, { name, paths, folder });
  }

  /** 'killed' or 'timeout' if a test notices the mutant. */
  async try(mutant) {
    this.#known ??= this.#cover();
    const { args, ms, TIMES } = (await this.#known)(mutant);
    if (!args) return undefined;
    const env = { MUTANTS: this.folder, MUTANT: String(mutant.id), TIMES };
    const status = await runFor(args, env, Math.max(LEAST_LIMIT_MS, SLOWER * ms));
    if (status === null) return 'timeout';
    return status === 0 ? undefined : 'killed';
  }

  /** Runs all files once, without a mutant; notes which mutants each of them reaches. */
  async #cover() {
    const REACHED = join(this.folder, `${this.name}.json`);
    await runFor([...JEST, ...this.paths], { MUTANTS: this.folder, REACHED });
    const all = readJson(REACHED).map((file) => ({ ...file, reached: new Set(file.reached) }));
    const bad = all.filter(({ isGood }) => !isGood).map(({ path }) => relative(root, path));
    if (bad.length > 0) console.log(`These fail without a mutant, and are left out: ${bad.join(', ')}`);
    const good = all.filter(({ isGood }) => isGood).sort((a, b) => a.ms - b.ms);
    return ({ id }) => {
      const by = good.filter(({ reached }) => reached.has(id));
      if (by.length === 0) return {};
      const ms = by.reduce((sum, file) => sum + file.ms, 0);
      // A mutant may keep the process alive.
      const options = ['--bail=1', '--forceExit', '--runTestsByPath'];
      return { args: [...JEST, ...options, ...by.map(({ path }) => path)], ms, TIMES: REACHED };
    };
  }
}

/** A script that is sent the numbers of mutants, one after the other. */
class Plans {
  #idle = [];
  #all = new Set();

  constructor({ name, script }, folder) {
    Object.assign(this, { name, script, folder });
    process.once('exit', () => this.end());
  }

  /** 'killed' or 'timeout' if a plan notices the mutant. */
  async try({ id }) {
    const child = this.#idle.pop() ?? this.#start();
    const timer = setTimeout(() => child.kill('SIGKILL'), LEAST_LIMIT_MS);
    const answer = new Promise((resolve) => {
      child.once('message', resolve);
      child.once('exit', (_code, signal) => resolve(signal ? { isLate: true } : { rule: 'the process ended' }));
    });
    child.send(id);
    const { rule, left, isLate } = await answer;
    clearTimeout(timer);
    if (left) throw new Error(`${this.script}: ${left} breaks a rule after mutant ${id}, without one.`);
    child.removeAllListeners();
    if (child.exitCode === null && child.signalCode === null) this.#idle.push(child);
    else this.#all.delete(child);
    if (isLate) return 'timeout';
    return rule && 'killed';
  }

  #start() {
    const child = fork(this.script, { cwd: root, env: { ...process.env, MUTANTS: this.folder } });
    this.#all.add(child);
    return child;
  }

  /** They may be in a loop. */
  end() {
    for (const child of this.#all) child.kill('SIGKILL');
  }
}

async function tried(mutant, suites) {
  for (const suite of suites) {
    const result = await suite.try(mutant);
    if (result) return { mutant, result, by: suite.name };
  }
  return { mutant, result: 'survived' };
}

function suitesOf({ suites: names = SUITES.map(({ name }) => name).join() }) {
  return names.split(',').map((name) => {
    const suite = SUITES.find((one) => one.name === name);
    if (!suite) throw new UsageError(`--suites ${name}: expected ${SUITES.map((one) => one.name).join(', ')}.`);
    return suite;
  });
}

/** Prints what was found, by file and by suite; returns the percentage. */
function print(results) {
  const count = (list, what) => list.filter(({ result }) => result === what).length;
  for (const file of kernelFiles()) {
    const of = results.filter(({ mutant }) => mutant.file === file);
    if (of.length === 0) continue;
    const [killed, timeout, survived] = ['killed', 'timeout', 'survived'].map((what) => count(of, what));
    console.log(`${file}: ${killed} killed, ${timeout} timeouts, ${survived} survived`);
  }
  for (const { name } of SUITES) console.log(`noticed by ${name}: ${results.filter(({ by }) => by === name).length}`);
  const found = results.length - count(results, 'survived');
  const percent = (100 * found) / results.length;
  console.log(`${found} of ${results.length} mutants found (${percent.toFixed(1)} %)`);
  return percent;
}

await runCommand({ usage, options }, async (values) => {
  const { seed = newSeed(), jobs, least } = values;
  endOnSignals();
  await withFolder(async (folder) => {
    const suites = suitesOf(values).map((suite) =>
      suite.script ? new Plans(suite, folder) : new Tests(suite, folder),
    );
    const mutants = chosen(writeCopies(folder), values, seed);
    console.log(`${mutants.length} mutants, seed ${seed}`);
    const redis = await provideRedis();
    process.env.REDIS_URL = redis.url;
    const results = [];
    const start = performance.now();
    const work = async () => {
      for (let mutant = mutants.pop(); mutant; mutant = mutants.pop()) {
        const result = await tried(mutant, suites);
        results.push(result);
        const { id, file, line, was, becomes } = mutant;
        if (result.result === 'survived')
          console.log(`survived ${id}: ${file}:${line}: ${shown(was)}  ->  ${shown(becomes) || 'nothing'}`);
        if (results.length % 10 === 0)
          console.log(`${results.length} run, after ${Math.round((performance.now() - start) / 1_000)} s`);
      }
    };
    try {
      await Promise.all(Array.from({ length: jobs }, work));
    } finally {
      for (const suite of suites) suite.end?.();
      await redis.stop();
    }
    if (print(results) < least) process.exitCode = 1;
  });
});
