import { openArena, playGames } from './arena.js';
import { MUTANTS, mutate } from './mutants.js';
import { type AnyScripts, timedScripts } from './run-script.js';

/** As many games as each mutant may survive; the true scripts must survive the same ones. */
const SEED = 4_711;
const RUNS = 250;

describe('the model test notices broken scripts', () => {
  const survive = async (scripts: AnyScripts): Promise<void> => {
    const arena = await openArena(process.env['REDIS_URL']!, scripts, 'mutants');
    try {
      await playGames(arena, { seed: SEED, runs: RUNS, shrink: false });
    } finally {
      arena.close();
    }
  };

  it('and finds nothing in the true ones', () => survive(timedScripts()), 60_000);

  it.each(MUTANTS)('when $name', async (mutant) => {
    const scripts = mutate(timedScripts(), mutant);
    const failure = await survive(scripts).then(
      () => 'It survived.',
      (error: Error) => `${error.message} ${String(error.cause)}`,
    );
    expect(failure).toContain('Property failed');
    // A script that does not run proves nothing.
    expect(failure).not.toMatch(/user_script|ERR /);
  });
});
