import { setImmediate as turn } from 'node:timers/promises';
import { closeAll, freshKey, startApp } from '../support/apps/lock-app.js';

const PROCESSES = 4;
/** How often each process counts up each counter; more for longer runs. */
const ROUNDS = Number(process.env['FUZZ_ROUNDS'] ?? 50);
type Around = (work: () => Promise<void>) => Promise<void>;

/** Has several instances in this process count up one number, each in the way of its own; gives the count. */
async function countUpHere(instances: readonly Around[], rounds: number): Promise<number> {
  let count = 0;
  const one = async (): Promise<void> => {
    const seen = count;
    await turn();
    count = seen + 1;
  };
  const lanes = instances.map(async (around) => {
    for (let round = 0; round < rounds; round += 1) await around(one);
  });
  await Promise.all(lanes);
  return count;
}

describe('instances that read, wait and write', () => {
  afterEach(closeAll);

  it('lose updates without the lock, and none with it', async () => {
    const apps = await Promise.all(Array.from({ length: PROCESSES }, () => startApp()));
    const [key, rounds] = [freshKey(), ROUNDS / 2];
    const without: Around = (work) => work();
    expect(await countUpHere([without, without, without, without], rounds)).toBeLessThan(PROCESSES * rounds);
    const under = apps.map(
      ({ locks }): Around =>
        (work) =>
          locks.withLock(key, { waitMs: 25_000 }, work),
    );
    expect(await countUpHere(under, rounds)).toBe(PROCESSES * rounds);
  });
});
