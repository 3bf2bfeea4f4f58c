import { type Grounds, openGrounds, playGames } from './arena.js';
import * as all from './mutants.js';
import { mutate } from './mutate.js';
import { type LockScripts } from '../../lib/redis/scripts/lock-scripts.js';
import { virtualScripts } from './run-script.js';

/** The number of games that a mutant may survive; the true scripts must survive the same ones. */
const SEED = 4_711;
const RUNS = 300;

describe('the games notice broken scripts', () => {
  let grounds: Grounds;

  beforeAll(async () => {
    grounds = await openGrounds('mutants');
  });
  afterAll(() => grounds.close());

  const survive = async (scripts: LockScripts, long = false): Promise<void> => {
    await playGames(await grounds.arenaOf(scripts), { seed: SEED, runs: long ? 0 : RUNS, shrink: false, long });
  };

  it.each(
    Object.values(all)
      .flat()
      .map((mutant) => [mutant[0], mutant] as const),
  )(
    'when %s',
    async (_name, mutant) => {
      const failure = await survive(mutate(virtualScripts(), mutant), all.LONG_MUTANTS.includes(mutant)).then(
        () => 'It survived.',
        (error: Error) => `${error.message} ${String(error.cause)}`,
      );
      expect(failure).toContain('Property failed');
      // A script that does not run proves nothing.
      expect(failure).not.toMatch(/user_script:\d+: (?!.*(OOM|READONLY|WRONGTYPE))/);
    },
    60_000,
  );

  // Last, as the true scripts must survive what mutants have left on the server.
  it('and pass the unmodified ones', () => survive(virtualScripts()), 60_000);
});
