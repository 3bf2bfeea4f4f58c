import { join } from 'node:path';
import { MODELS } from '../model/models.mjs';
import * as mutants from '../scripts/mutants.js';
import { mutate } from '../scripts/mutate.js';
import { virtualScripts } from '../scripts/run-script.js';
import { type Change, ROOT, changedSource, createLoader } from '../simulation/library/typescript-loader.mjs';
import type * as Planted from '../simulation/planted/find-bug.js';

/** Without this test, only `npm run test:all` notices after minutes that the text of a bug is gone. */
describe('the text that is replaced', () => {
  const { BUGS, failedRuns } = createLoader()('test/simulation/planted/find-bug.ts') as typeof Planted;
  const planted: [string, Change][] = [
    ...BUGS.map((bug): [string, Change] => [bug.name, bug]),
    ...failedRuns().map(({ name, without }): [string, Change] => [name, without]),
  ];
  const broken = MODELS.flatMap(({ name: model, mutants }) =>
    mutants.map((mutant): [string, Change] => [mutant.name, { ...mutant, file: `test/model/${model}.qnt` }]),
  );
  it.each([...planted, ...broken])('occurs once where a bug or a mutant is planted: %s', (_name, change) => {
    expect(changedSource(join(ROOT, change.file), [change])).toContain(change.replace);
  });

  it.each(Object.values(mutants).flat())('matches a script: %s', (...mutant) => {
    expect(() => mutate(virtualScripts(), mutant)).not.toThrow();
  });
});
