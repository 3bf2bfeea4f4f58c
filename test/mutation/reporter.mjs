// Notes which mutants each test file reaches, and how long its tests take; in a run with a mutant, ends the process at the first test
// that notices it. The tests run in the process of this reporter (`jest -i`).
import { readFileSync, writeFileSync } from 'node:fs';
import process from 'node:process';

const { MUTANT, REACHED, TIMES } = process.env;
// Tests replace these.
const { setTimeout, clearTimeout } = globalThis;
const exit = process.exit.bind(process);

/** A test that waits for what a mutant prevents is ended after its time without it, times this; and never before this time. */
const SLOWER = 10;
const LEAST_LIMIT_MS = 10_000;

const nameOf = (path, { fullName }) => `${path} ${fullName}`;

export default class MutantsReporter {
  #files = [];
  #timer;
  #times = new Map(
    TIMES && JSON.parse(readFileSync(TIMES, 'utf8')).flatMap(({ tests }) => tests.map(({ name, ms }) => [name, ms])),
  );

  onTestFileStart() {
    globalThis.$mutant?.reached.clear();
  }

  onTestCaseStart({ path }, test) {
    if (MUTANT === undefined) return;
    const ms = Math.max(LEAST_LIMIT_MS, SLOWER * (this.#times.get(nameOf(path, test)) ?? 0));
    this.#timer = setTimeout(() => exit(1), ms);
  }

  onTestCaseResult(_test, { status }) {
    clearTimeout(this.#timer);
    if (status === 'failed' && MUTANT !== undefined) exit(1);
  }

  onTestFileResult({ path }, { numFailingTests, testExecError, perfStats, testResults }) {
    if (MUTANT !== undefined) return;
    const isGood = numFailingTests === 0 && !testExecError;
    const tests = testResults.map((test) => ({ name: nameOf(path, test), ms: test.duration ?? 0 }));
    const reached = [...(globalThis.$mutant?.reached ?? [])];
    this.#files.push({ path, isGood, ms: perfStats.runtime, tests, reached });
    // Also if the run is ended before the last file.
    writeFileSync(REACHED, JSON.stringify(this.#files));
  }
}
