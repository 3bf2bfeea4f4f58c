import { type GameKind, type Grounds, openGrounds, playGames } from './arena.js';
import * as all from './mutants.js';
import { type Mutant, mutate } from './mutate.js';
import { type AnyScripts, virtualScripts } from './run-script.js';

/** As many games as each mutant may survive; the true scripts must survive the same ones. */
const SEED = 4_711;
const RUNS = 250;

/** Those that a client could see: the reference model needs no exact model beside it to notice them. */
const BREAK_A_PROMISE = new Set([
  'a late duplicate acquire is not refused',
  'a duplicate acquire counts twice',
  'a writer ignores readers',
  'a reader ignores writers',
  'one reader too many',
  'tokens do not rise within a microsecond',
  'tokens follow a clock that steps back',
  'the fair queue is overtaken',
  'holds end late',
  'a hold ends a millisecond late',
  'a swept hold stays counted',
  'a swept reader stays counted for its owner',
  'a renewal shortens',
  'a parked hold can be renewed',
  'a parked hold can be released',
  'a parked hold does not count',
  'a parked hold can be re-entered',
  'parking counts from a grant in the future',
  'the lock is not kept for its minimum',
  'a second release frees again',
  'a release is not remembered',
  'a release hands nothing over',
  'a foreign release frees the lock',
  'a re-entering waiter stays in the queue',
  'the hand-over grants too many',
  'a waiter that must ask is handed the lock',
  'a waiter that must ask is not called',
  'a second message does not reach a waiter',
  'a waiter for several keys is handed one',
  'several keys are granted when one is busy',
  'some of several keys are granted while it waits',
  'a refusal of one key is not a refusal of all',
  'several keys are not saved',
  'a fire is granted twice',
  'fires are forgotten',
  'a lost run is repeated unasked',
  'a claim is not checked',
  'a downgraded hold stays counted as a writer',
  'a downgraded hold does not count as a reader',
  'a downgrade that is sent again counts twice',
  'a revocation counts nothing',
  'a revocation hands nothing over',
]);

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
    ['when', all.MUTANTS, 'plain'],
    ['on the plain path when', all.PLAIN_MUTANTS, 'plain'],
    ['of a batch when', all.BATCH_MUTANTS, 'plain'],
    ['of an adoption when', all.ADOPT_MUTANTS, 'adoptions'],
    ['of a semaphore when', all.SEMAPHORE_MUTANTS, 'semaphores'],
    ['of a write-back when', all.WRITE_BACK_MUTANTS, 'plain'],
    ['of a void claim when', all.VOID_CLAIM_MUTANTS, 'plain'],
  ];

  for (const [where, mutants, kind] of kinds)
    it.each(mutants)(`${where} %s`, (...mutant) => expectNoticed(mutant, true, kind));

  it.each(all.MUTANTS.filter(([name]) => BREAK_A_PROMISE.delete(name)))(
    'by a broken promise alone when %s',
    (...mutant) => expectNoticed(mutant, false),
  );

  it('and knows all whose promises are watched', () => expect([...BREAK_A_PROMISE]).toEqual([]));

  // Last, as the true scripts must survive what mutants have left on the server.
  it.each(['plain', 'adoptions', 'semaphores'] as const)(
    'and passes the unmodified ones (games: %s)',
    (kind) => survive(virtualScripts(), true, kind),
    60_000,
  );
});
