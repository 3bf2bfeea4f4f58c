import 'reflect-metadata';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { type INestApplication } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { openDatabase } from './database/open-database.js';
import { PERIOD_MS, UNLOCKED } from './lottery/lottery.settings.js';
import { PlaygroundModule, type PlaygroundParts } from './playground/playground.module.js';
import { RedisWire } from './playground/redis-wire.js';
import { TimeLine } from './playground/time-line.js';
import { checkDraws } from './runner/check-draws.js';
import { FireBoard } from './runner/fire-board.js';
import { INSTANCE_NAMES, InstanceGroup } from './runner/instance-group.js';
import { Standstill } from './runner/standstill.js';

/** How much longer than its fires a run may take: instances have to start, and a machine may stall. */
const EXTRA_MS = 60_000;

const print = (line: string): void => console.log(line);
// A closed terminal does not accept lines.
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => undefined);

/** Returns the number of fires to run for; `Infinity` without `--fires`. */
function wantedFires(): number {
  const { fires } = parseArgs({ options: { fires: { type: 'string' } } }).values;
  const count = fires === undefined ? Infinity : Number(fires);
  if (count === Infinity || (Number.isSafeInteger(count) && count > 0)) return count;
  throw new Error(`Expected --fires to be a whole number of at least 1, got ${fires}.`);
}

/** Starts the page on which a reader watches the instances, and breaks them. */
async function startPlayground(parts: PlaygroundParts): Promise<INestApplication> {
  const logger = ['warn', 'error', 'fatal'] as const;
  // Open pages do not prevent its end.
  const app = await NestFactory.create(PlaygroundModule.forRoot(parts), {
    logger: [...logger],
    forceCloseConnections: true,
  });
  await app.listen(0, '127.0.0.1');
  const url = new URL(await app.getUrl());
  print(`Playground: ${url.origin}/   Board of the locks: ${url.origin}/locks`);
  print('Open both. On the playground, click "Place an order twice", then "Freeze" on the instance that leads.');
  return app;
}

/** Runs the instances until enough fires are complete. Returns their nominal times. */
async function runInstances(folder: string, wanted: number, interrupted: AbortSignal): Promise<number[]> {
  const complete: number[] = [];
  const over = new AbortController();
  const timeLine = new TimeLine();
  const board = new FireBoard({
    instances: () => group.living,
    print,
    onComplete: (fire, reports) => {
      timeLine.addFire(fire, reports);
      if (complete.push(fire) === wanted) over.abort();
    },
    onLate: (fire, name, report) => timeLine.correctFire(fire, name, report),
  });
  const onEnd = (): void => (group.living.length > 0 ? board.recheck() : over.abort());
  const given = process.env['REDIS_URL'] ?? 'redis://127.0.0.1:6379';
  // An encrypted connection does not pass through it.
  const wire = given.startsWith('redis:') ? await RedisWire.to(given) : null;
  const [redisUrl, keyPrefix] = [wire?.url ?? given, `${basename(folder)}:`];
  const env = { DATABASE_FILE: join(folder, 'lottery.db'), LOCK_PREFIX: keyPrefix, REDIS_URL: redisUrl };
  const group = new InstanceGroup(env, { onFire: (name, report) => board.add(name, report), onEnd, print });
  const playground = startPlayground({ group, timeLine, wire, redisUrl, keyPrefix });
  const run = async (): Promise<void> => {
    await playground;
    if (interrupted.aborted) return;
    await Promise.all(INSTANCE_NAMES.map((name) => group.start(name)));
    board.start();
    const limit = wanted === Infinity ? [] : [sleep(wanted * PERIOD_MS + EXTRA_MS, undefined, { ref: false })];
    await Promise.race([aborted(over.signal), ...limit]);
  };
  try {
    await Promise.race([run(), aborted(interrupted)]);
  } finally {
    await group.stop();
    // An instance that failed to start has reported it.
    await playground.then((app) => app.close()).catch(() => undefined);
    wire?.close();
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
  if (stoodStill)
    print(`The machine stalled for ${Math.round(standstillMs)} ms: fires that no instance saw do not count.`);
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
  // A terminal also sends Ctrl-C to the instances. They stop at the first signal, and so does this process.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => interruption.abort());
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
