// Notes which mutants each test file reaches, and how long it and its longest test take: the tests run in the process of this reporter (`jest -i`).
import { writeFileSync } from 'node:fs';
import process from 'node:process';

export default class ReachedReporter {
  #files = [];

  onTestFileStart() {
    globalThis.$mutant?.reached.clear();
  }

  onTestFileResult({ path }, { numFailingTests, testExecError, perfStats, testResults }) {
    const isGood = numFailingTests === 0 && !testExecError;
    const longestMs = Math.max(0, ...testResults.map(({ duration }) => duration ?? 0));
    const reached = [...(globalThis.$mutant?.reached ?? [])];
    this.#files.push({ path, isGood, ms: perfStats.runtime, longestMs, reached });
    // Also if the run is ended before the last file.
    writeFileSync(process.env.REACHED, JSON.stringify(this.#files));
  }
}
