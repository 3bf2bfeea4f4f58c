import { openArena, playGames } from './arena.js';
import { virtualScripts } from './run-script.js';

const seed = Number(process.env['FUZZ_SEED'] ?? 20_260_101);
const runs = Number(process.env['FUZZ_RUNS'] ?? 500);

describe('lock scripts against the model', () => {
  it.each([
    ['', 'plain'],
    [' in which holds change hands', 'adoptions'],
    [' of semaphores', 'semaphores'],
  ] as const)(
    `agree in ${runs} random games%s of seed ${seed}`,
    async (_, kind) => {
      const arena = await openArena(virtualScripts(), 'model');
      try {
        const operations = await playGames(arena, { seed, runs, shrink: true, kind });
        process.stdout.write(`Lock model: ${operations} operations agreed (seed ${seed}).\n`);
        expect(operations).toBeGreaterThan(runs * 10);
      } finally {
        await arena.close();
      }
    },
    60_000 + runs * 2_000,
  );
});
