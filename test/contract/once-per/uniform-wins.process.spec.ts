import 'reflect-metadata';
import { Locked } from '../../../lib/index.js';
import { closeAll, freshKey, startApp } from '../../support/apps/lock-app.js';

const INSTANCES = 4;
/** How many fires are run; more for longer runs. */
const ROUNDS = Number(process.env['FIRE_ROUNDS'] ?? 80);
/** So long that no test sees the end of one: each round has a key, and with it a fire, of its own. */
const SLOT_MS = 30 * 24 * 3_600_000;
/** With three degrees of freedom, chance alone exceeds it once in 10,000 runs. */
const CRITICAL = 21.108;

class Job {
  wins = 0;

  @Locked('uniform:<0>', { oncePer: SLOT_MS })
  async spread(_fire: string): Promise<string | undefined> {
    return this.#win();
  }

  @Locked('uniform:<0>', { oncePer: SLOT_MS, spreadMs: 0 })
  async atOnce(_fire: string): Promise<string | undefined> {
    return this.#win();
  }

  #win(): string {
    this.wins += 1;
    return 'ran';
  }
}

const start = async (): Promise<Job[]> => {
  const apps = await Promise.all(Array.from({ length: INSTANCES }, () => startApp({}, { providers: [Job] })));
  // A claim gives up after a second, also when its connection is not there yet.
  await Promise.all(apps.map(async ({ locks }) => locks.withLock(freshKey(), () => undefined)));
  return apps.map(({ app }) => app.get(Job));
};

/**
 * All instances get to the same fire at once, always in the same order: whoever is first would win nearly all, were it
 * not for the delay. Gives how often it was run.
 */
async function fire(jobs: readonly Job[], method: 'spread' | 'atOnce'): Promise<number> {
  const key = freshKey();
  const answers = await Promise.all(jobs.map((job) => job[method](key)));
  return answers.filter((answer) => answer === 'ran').length;
}

describe('the winner of a fire, with clocks that agree', () => {
  afterEach(closeAll);

  it(
    'is unique, and each instance wins equally often (chi-square with 3 degrees of freedom, p = 0.0001)',
    async () => {
      const jobs = await start();
      for (let round = 0; round < ROUNDS; round += 1) expect(await fire(jobs, 'spread')).toBe(1);
      const expected = ROUNDS / INSTANCES;
      const wins = jobs.map((job) => job.wins);
      const chiSquare = wins.reduce((sum, won) => sum + (won - expected) ** 2 / expected, 0);
      expect({ wins, isUniform: chiSquare < CRITICAL }).toEqual({ wins, isUniform: true });
    },
    60_000 + 300 * ROUNDS,
  );

  it('is unique even without a delay before the claim', async () => {
    const jobs = await start();
    for (let round = 0; round < 50; round += 1) expect(await fire(jobs, 'atOnce')).toBe(1);
    expect(jobs.reduce((sum, { wins }) => sum + wins, 0)).toBe(50);
  });
});
