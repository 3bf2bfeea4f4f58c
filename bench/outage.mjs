// Measures what callers see while Redis is away, and prints the tables of docs/redis-down.md:
// `npm run build && node bench/outage.mjs`. It takes about a minute and a half: two outages, each of 15 seconds.
import 'reflect-metadata';
import process from 'node:process';
import { setTimeout as sleep } from 'node:timers/promises';
import { Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { runCommand } from '../scripts/command.mjs';
import { makeFolder, startRedisServer } from '../scripts/redis.mjs';

const { Locked, RedisLockModule, RedisLockService, lockKey } = await import('../dist/esm/index.js');

const usage = `Usage: node bench/outage.mjs
Stops a Redis (refused connections), then freezes one (no answers), for 15 s each, and prints what calls did.`;

const OUTAGE_MS = 15_000;
/** Persists each write: a restart keeps the locks. */
const DURABLE = ['--appendonly', 'yes', '--appendfsync', 'always'];

/** The decorated calls, begun at the moment of the outage, by the description of their options in the table. */
const CALLS = {
  'the defaults (`waitMs: 10_000`)': {},
  '`waitMs: 1_000`': { waitMs: 1_000 },
  '`waitMs: 0`': { waitMs: 0 },
  "`ifBusy: 'throw'`": { ifBusy: 'throw' },
  "`ifBusy: 'skip'`": { ifBusy: 'skip' },
  "`waitMs: 1_000`, `onUnavailable: 'skip'`": { waitMs: 1_000, onUnavailable: 'skip' },
  "`waitMs: 1_000`, `onUnavailable: 'run-unlocked'`": { waitMs: 1_000, onUnavailable: 'run-unlocked' },
  '`oncePer: 60_000` (a job)': { oncePer: 60_000 },
  '`waitMs: 30_000`': { waitMs: 30_000 },
};

class Work {}
Object.values(CALLS).forEach((options, index) => {
  const name = `call${index}`;
  const descriptor = { value: async () => 'ran', writable: true, configurable: true, enumerable: false };
  Object.defineProperty(Work.prototype, name, descriptor);
  Locked(lockKey`${name}`, options)(Work.prototype, name, descriptor);
  Object.defineProperty(Work.prototype, name, descriptor);
});

/** An outage: how it begins, and how it ends. */
const OUTAGES = {
  'Redis is stopped: connections are refused': {
    begin: (redis) => redis.kill(),
    end: (redis) => startRedisServer({ port: redis.port, args: redis.args }),
  },
  'Redis is frozen: connections stay open, nothing answers': {
    begin: (redis) => redis.kill('SIGSTOP'),
    end: async (redis) => {
      await redis.kill('SIGCONT');
      return redis;
    },
  },
};

/** Collects the lines of the module's log, with the time since `start()`. */
function recordLog() {
  const lines = [];
  let startedAt = Infinity;
  const add = (level) => (text) => {
    const at = performance.now() - startedAt;
    if (at >= 0) lines.push({ at, level, text });
  };
  const logger = { log: () => {}, debug: () => {}, warn: add('warn'), error: add('error') };
  return { logger, lines, start: (at) => (startedAt = at) };
}

const seconds = (ms) => `${(ms / 1_000).toFixed(1)} s`;

const outcomeOf = (value) => (value === null ? 'returns `null`' : `returns \`${JSON.stringify(value)}\``);
const failureOf = ({ name, reason }) =>
  reason === undefined ? `rejects with \`${name}\`` : `rejects with \`${name}\`, \`${reason}\``;

/** Follows a call; `result` has its outcome as soon as there is one. */
function follow(what, startedAt, call) {
  const result = { what, at: undefined, outcome: 'no answer' };
  const end = (outcome) => Object.assign(result, { at: performance.now() - startedAt, outcome });
  call().then(
    (value) => end(outcomeOf(value)),
    (error) => end(failureOf(error)),
  );
  return result;
}

/** A handle that was taken before the outage: the reason of its signal, and when it was aborted. */
function followHold(what, startedAt, { signal }) {
  const result = { what, at: undefined, outcome: 'is still held' };
  signal.addEventListener('abort', () => {
    Object.assign(result, { at: performance.now() - startedAt, outcome: `lost, \`${signal.reason.reason}\`` });
  });
  return result;
}

async function measure({ begin, end }) {
  const folder = makeFolder();
  let redis = await startRedisServer({ args: ['--dir', folder.path, ...DURABLE] });
  class AppModule {}
  Module({ imports: [RedisLockModule.forRoot({ connection: redis.url })], providers: [Work] })(AppModule);
  const log = recordLog();
  const app = await NestFactory.createApplicationContext(AppModule, { logger: log.logger });
  const locks = app.get(RedisLockService);
  const work = app.get(Work);

  const short = await locks.acquire('short', { leaseMs: 5_000 });
  const long = await locks.acquire('long');
  await begin(redis);
  const startedAt = performance.now();
  log.start(startedAt);
  const results = [
    ...Object.keys(CALLS).map((what, i) => follow(`\`@Locked\`: ${what}`, startedAt, () => work[`call${i}`]())),
    follow('`tryAcquire`', startedAt, () => locks.tryAcquire('try')),
    follow('`inspect`', startedAt, () => locks.inspect('long')),
    followHold('a held lock, `leaseMs: 5_000`', startedAt, short),
    followHold('a held lock, the default `leaseMs: 30_000`', startedAt, long),
  ];
  await sleep(OUTAGE_MS);
  redis = await end(redis);
  await sleep(4_000);
  const late = follow('', performance.now(), () => locks.withLock('after', () => 'ran'));
  await sleep(2_000);
  results.push({ ...late, what: '`withLock`, 4 s after the end of the outage' });
  const seen = results.map((one) => ({ ...one }));
  await long.release();
  await app.close();
  await redis.stop();
  folder.remove();
  return { results: seen, lines: log.lines };
}

await runCommand({ usage, options: {} }, async () => {
  for (const [title, outage] of Object.entries(OUTAGES)) {
    const { results, lines } = await measure(outage);
    console.log(`\n## ${title}\n\n| call | after | what it sees |\n| --- | ---: | --- |`);
    for (const { what, at, outcome } of results) {
      console.log(`| ${what} | ${at === undefined ? '' : seconds(at)} | ${outcome} |`);
    }
    console.log('\nThe log:\n');
    for (const { at, level, text } of lines) console.log(`${seconds(at).padStart(7)}  ${level.toUpperCase()} ${text}`);
  }
  process.exit(0);
});
