import { type GameKind, type Grounds, openGrounds, playGames } from './arena.js';
import * as all from './mutants.js';
import { type Mutant, mutate } from './mutate.js';
import { type AnyScripts, virtualScripts } from './run-script.js';

/** As many games as each mutant may survive; the true scripts must survive the same ones. */
const SEED = 4_711;
const RUNS = 250;

describe('the model test notices broken scripts', () => {
  let grounds: Grounds;

  beforeAll(async () => {
    grounds = await openGrounds('mutants');
  });
  afterAll(() => grounds.close());

  const survive = async (scripts: AnyScripts, exact = true, kind: GameKind = 'plain'): Promise<void> => {
    const arena = await grounds.arenaOf(scripts);
    await playGames(arena, { seed: SEED, runs: RUNS, shrink: false, exact, kind });
  };

  const expectNoticed = async (mutant: Mutant, exact: boolean, kind: GameKind = 'plain'): Promise<void> => {
    const failure = await survive(mutate(virtualScripts(), mutant), exact, kind).then(
      () => 'It survived.',
      (error: Error) => `${error.message} ${String(error.cause)}`,
    );
    expect(failure).toContain('Property failed');
    // A script that does not run proves nothing.
    expect(failure).not.toMatch(/user_script|ERR /);
  };

  const kinds: readonly [where: string, mutants: readonly Mutant[], kind: GameKind][] = [
    ['when', [...all.BROKEN_PROMISES, ...all.MUTANTS], 'plain'],
    ['on the plain path when', all.PLAIN_MUTANTS, 'plain'],
    ['of a batch when', all.BATCH_MUTANTS, 'plain'],
    ['of an adoption when', all.ADOPT_MUTANTS, 'adoptions'],
    ['of a semaphore when', all.SEMAPHORE_MUTANTS, 'semaphores'],
    ['of a write-back when', all.WRITE_BACK_MUTANTS, 'plain'],
    ['of a void claim when', all.VOID_CLAIM_MUTANTS, 'plain'],
  ];

  for (const [where, mutants, kind] of kinds)
    it.each(mutants)(`${where} %s`, (...mutant) => expectNoticed(mutant, true, kind));

  it.each(all.BROKEN_PROMISES)('by a broken promise alone when %s', (...mutant) => expectNoticed(mutant, false));

  // Last, as the true scripts must survive what mutants have left on the server.
  it.each(['plain', 'adoptions', 'semaphores'] as const)(
    'and passes the unmodified ones (games: %s)',
    (kind) => survive(virtualScripts(), true, kind),
    60_000,
  );
});
