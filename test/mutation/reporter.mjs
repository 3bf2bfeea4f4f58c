// Notes which mutants each test file reaches, and how long it takes: the tests run in the process of this reporter (`jest -i`).
import { writeFileSync } from 'node:fs';
import process from 'node:process';

export default class ReachedReporter {
  #files = [];

  onTestFileStart() {
    globalThis.$mutant?.reached.clear();
  }

  onTestFileResult({ path }, { numFailingTests, testExecError, perfStats }) {
    const isGood = numFailingTests === 0 && !testExecError;
    const reached = [...(globalThis.$mutant?.reached ?? [])];
    this.#files.push({ path, isGood, ms: perfStats.runtime, reached });
    // Also if the run is ended before the last file.
    writeFileSync(process.env.REACHED, JSON.stringify(this.#files));
  }
}
