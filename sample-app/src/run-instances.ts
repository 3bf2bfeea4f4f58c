import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { migrate, openDatabase } from './database/open-database.js';
import { checkFires } from './runner/check-fires.js';
import { FireBoard } from './runner/fire-board.js';
import { type Instance, startInstances } from './runner/instances.js';

/** Starts three instances of the app on one Redis and one database, and prints a line per fire of the lottery. */
async function run(): Promise<number> {
  const { values } = parseArgs({ options: { fires: { type: 'string' } } });
  const fires = values.fires === undefined ? Infinity : Number(values.fires);
  if (!(fires >= 1)) throw new Error(`Expected --fires to be a number from 1 and up, got ${values.fires}.`);
  const folder = mkdtempSync(join(tmpdir(), 'lottery-'));
  const path = join(folder, 'lottery.db');
  const database = openDatabase(path);
  migrate(database);

  const board = new FireBoard(['A', 'B', 'C'], (line) => console.log(line));
  const instances = await startInstances(board.names, path, (report) => board.add(report));
  console.log(`Three instances: ${instances.map(({ name, url }) => `${name} ${url}`).join(', ')}. Ctrl-C ends it.`);
  board.begin();
  const stopped = await Promise.race([board.complete(fires), interrupted(), died(instances)]);
  await Promise.all(instances.map((instance) => instance.stop()));

  const problems = stopped === 'complete' ? checkFires(database, board.fires.slice(0, fires)) : [];
  if (stopped === 'complete')
    console.log(problems.length === 0 ? `${fires} fires, each drawn exactly once.` : problems.join('\n'));
  if (stopped === 'died') problems.push('An instance ended by itself.');
  database.close();
  rmSync(folder, { recursive: true, force: true });
  return problems.length === 0 ? 0 : 1;
}

const interrupted = (): Promise<'interrupted'> =>
  new Promise((resolve) => {
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => resolve('interrupted'));
  });

const died = (instances: readonly Instance[]): Promise<'died' | 'interrupted'> =>
  Promise.race(instances.map(async ({ ended }) => ((await ended) === 'SIGINT' ? 'interrupted' : 'died')));

process.exitCode = await run();
