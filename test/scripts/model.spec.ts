import { openArena, playGames } from './arena.js';
import { timedScripts } from './run-script.js';

const seed = Number(process.env['FUZZ_SEED'] ?? 20_260_101);
const runs = Number(process.env['FUZZ_RUNS'] ?? 500);

describe('lock scripts against the model', () => {
  it(
    `agree in ${runs} random games of seed ${seed}`,
    async () => {
      const arena = await openArena(process.env['REDIS_URL']!, timedScripts(), 'model');
      try {
        const operations = await playGames(arena, { seed, runs, shrink: true });
        process.stdout.write(`Lock model: ${operations} operations agreed (seed ${seed}).\n`);
        expect(operations).toBeGreaterThan(runs * 10);
      } finally {
        arena.close();
      }
    },
    60_000 + runs * 2_000,
  );
});
