import { openGrounds, playGames } from './arena.js';
import { virtualScripts } from './run-script.js';

const seed = Number(process.env['FUZZ_SEED'] ?? 20_260_101);
const runs = Number(process.env['FUZZ_RUNS'] ?? 500);

describe('lock scripts against the model', () => {
  it.each([
    ['', 'plain', runs],
    [' in which holds change hands', 'adoptions', runs],
    [' of semaphores', 'semaphores', runs],
    [' with very many waiters', 'long', 0],
  ] as const)(
    `agree in ${runs} random games%s of seed ${seed}`,
    async (_, kind, random) => {
      const grounds = await openGrounds('model');
      try {
        const arena = await grounds.arenaOf(virtualScripts());
        const operations = await playGames(arena, { seed, runs: random, shrink: true, kind });
        process.stdout.write(`Lock model: ${operations} operations agreed (seed ${seed}).\n`);
        expect(operations).toBeGreaterThan(random * 10);
      } finally {
        await grounds.close();
      }
    },
    60_000 + runs * 2_000,
  );
});
