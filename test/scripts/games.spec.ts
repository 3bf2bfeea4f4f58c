import { openGrounds, playGames } from './arena.js';
import { Lua } from '../support/lua/lua.js';
import { virtualScripts } from './run-script.js';

const seed = Number(process.env['FUZZ_SEED'] ?? 20_260_101);
const runs = Number(process.env['FUZZ_RUNS'] ?? 1_000);

describe('the lock scripts', () => {
  it(
    `follow the reference model on a real and on a simulated server in ${runs} random games of seed ${seed}`,
    async () => {
      const grounds = await openGrounds('games');
      try {
        const arena = await grounds.arenaOf(virtualScripts(), await Lua.open());
        const operations = await playGames(arena, { seed, runs, shrink: !process.env['NOSHRINK'], long: true });
        process.stdout.write(`Lock scripts: ${operations} operations as in the model (seed ${seed}).\n`);
        expect(operations).toBeGreaterThan(runs * 10);
      } finally {
        await grounds.close();
      }
    },
    60_000 + runs * 2_000,
  );
});
