import { type Bench, type Checks, openBench } from './driven-lock.js';
import { type Mutant, mutate } from './mutants.js';
import { VOID_CLAIM_MUTANTS, WRITE_BACK_MUTANTS } from './quorum-mutants.js';
import { type AnyScripts, timedScripts } from './run-script.js';
import { VOID_CLAIM_CHECKS } from './void-claim-checks.js';
import { WRITE_BACK_CHECKS } from './write-back-checks.js';

/** Games seldom get to the corners of a write-back and of a void claim: here, the checks of the two play. */
describe.each<[string, Checks, readonly Mutant[]]>([
  ['a write-back', WRITE_BACK_CHECKS, WRITE_BACK_MUTANTS],
  ['a void claim', VOID_CLAIM_CHECKS, VOID_CLAIM_MUTANTS],
])('the checks of %s notice broken scripts', (_what, checks, mutants) => {
  let bench: Bench;

  beforeAll(async () => {
    bench = await openBench();
  });
  afterAll(() => bench.close());

  /** The first check that fails, and how; undefined: all pass. */
  const failureOf = async (scripts: AnyScripts): Promise<string | undefined> => {
    for (const [name, check] of Object.entries(checks)) {
      const failure = await bench.run(scripts, check).then(
        () => undefined,
        (error: Error) => `${name}: ${error.message}`,
      );
      if (failure !== undefined) return failure;
    }
    return undefined;
  };

  it('and pass the unmodified ones', async () => expect(await failureOf(timedScripts())).toBeUndefined());

  it.each(mutants)('when $name', async (mutant) => {
    const failure = await failureOf(mutate(timedScripts(), mutant));
    expect(failure).toBeDefined();
    // A script that does not run proves nothing.
    expect(failure).not.toMatch(/\bERR\b/);
  });
});
