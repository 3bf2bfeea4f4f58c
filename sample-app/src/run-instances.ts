import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { openDatabase } from './database/open-database.js';
import { PERIOD_MS, UNLOCKED } from './lottery/lottery.settings.js';
import { checkDraws } from './runner/check-draws.js';
import { FireBoard } from './runner/fire-board.js';
import { InstanceGroup } from './runner/instance-group.js';
import { Standstill } from './runner/standstill.js';

const NAMES = ['A', 'B', 'C'];

/** How much longer than its fires a run may take: instances have to start, and a machine may stall. */
const EXTRA_MS = 60_000;

const print = (line: string): void => console.log(line);

/** Returns the number of fires to run for; `Infinity` without `--fires`. */
function wantedFires(): number {
  const { fires } = parseArgs({ options: { fires: { type: 'string' } } }).values;
  const count = fires === undefined ? Infinity : Number(fires);
  if (count === Infinity || (Number.isSafeInteger(count) && count > 0)) return count;
  throw new Error(`Expected --fires to be a whole number of at least 1, got ${fires}.`);
}

/** Runs the instances until enough fires are complete. Returns their nominal times. */
async function runInstances(folder: string, wanted: number, interrupted: AbortSignal): Promise<number[]> {
  const complete: number[] = [];
  const over = new AbortController();
  const board = new FireBoard({
    instances: () => group.living,
    print,
    onComplete: (fire) => complete.push(fire) === wanted && over.abort(),
  });
  const onEnd = (): void => (group.living.length > 0 ? board.recheck() : over.abort());
  const group = new InstanceGroup({ onFire: (name, report) => board.add(name, report), onEnd, print });
  const env = { DATABASE_FILE: join(folder, 'lottery.db'), LOCK_PREFIX: `${basename(folder)}:` };
  const run = async (): Promise<void> => {
    await Promise.all(NAMES.map((name) => group.start(name, env)));
    board.start();
    const limit = wanted === Infinity ? [] : [sleep(wanted * PERIOD_MS + EXTRA_MS, undefined, { ref: false })];
    await Promise.race([aborted(over.signal), ...limit]);
  };
  try {
    await Promise.race([run(), aborted(interrupted)]);
  } finally {
    await group.stop();
  }
  return complete.slice(0, wanted);
}

const aborted = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal.aborted) resolve();
    signal.addEventListener('abort', () => resolve(), { once: true });
  });

/** Compares the database with what the instances reported. Returns the exit code. */
function check(file: string, fires: readonly number[], wanted: number, standstillMs: number): number {
  if (fires.length < wanted) {
    print(`Failed: only ${fires.length} of ${wanted} fires were complete.`);
    return 1;
  }
  const stoodStill = standstillMs > PERIOD_MS / 2;
  if (stoodStill) print(`The machine stalled for ${Math.round(standstillMs)} ms: fires that nobody saw do not count.`);
  const sql = openDatabase(file);
  const faults = checkDraws(sql, fires, stoodStill);
  sql.close();
  for (const fault of faults) print(`Failed: ${fault}`);
  if (faults.length > 0) return 1;
  print(`Checked: each of ${wanted} fires was drawn once, with 10 different winners; the fencing tokens rise.`);
  return 0;
}

async function main(): Promise<number> {
  const wanted = wantedFires();
  const interruption = new AbortController();
  // A terminal sends Ctrl-C to the instances, too. They stop at the first signal, and so does this process.
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => interruption.abort());
  const folder = mkdtempSync(join(tmpdir(), 'sample-app-'));
  const file = join(folder, 'lottery.db');
  try {
    openDatabase(file).close();
    if (UNLOCKED) print('LOTTERY_UNLOCKED=1: the lottery runs without its lock.');
    const standstill = new Standstill();
    const fires = await runInstances(folder, wanted, interruption.signal);
    standstill.stop();
    return wanted === Infinity
      ? Number(!interruption.signal.aborted)
      : check(file, fires, wanted, standstill.longestMs);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

try {
  process.exitCode = await main();
} catch (error) {
  console.error((error as Error).message);
  process.exitCode = 1;
}
