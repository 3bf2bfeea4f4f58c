/**
 * What events cost when nobody listens: acquire and release by a module as it is, against one whose `emit` was replaced by
 * a function that does nothing, in alternating slices of one run. Then the same with a listener on every event.
 */
import { NestFactory } from '@nestjs/core';
import { RedisLockModule, RedisLockService } from 'nestjs-redis-lock';

const SLICES = 15;
const SLICE_MS = Number(process.env.SLICE_MS ?? 500);
const NAMES = ['acquired', 'waiting', 'released', 'renewed', 'renewFailed', 'lost', 'skipped', 'timedOut', 'reentered'];
const connection = process.env.REDIS_URL ?? 'redis://127.0.0.1:6379';

async function open(name) {
  const module = RedisLockModule.forRoot({ connection });
  const app = await NestFactory.createApplicationContext(module, { logger: false });
  const locks = app.get(RedisLockService);
  const pair = async () => (await locks.acquire(`bench:${name}`)).release();
  return { app, locks, pair };
}

async function rateOf({ pair }) {
  const startedAt = performance.now();
  let pairs = 0;
  while (performance.now() - startedAt < SLICE_MS) {
    await pair();
    pairs += 1;
  }
  return (pairs * 1_000) / (performance.now() - startedAt);
}

const [mute, silent, heard] = [await open('mute'), await open('silent'), await open('heard')];
mute.locks.events.emit = () => undefined;
let events = 0;
for (const name of NAMES) heard.locks.events.on(name, () => (events += 1));
for (const one of [mute, silent, heard]) await rateOf(one);

const ratios = { silent: [], heard: [] };
for (let slice = 0; slice < SLICES; slice += 1) {
  const base = await rateOf(mute);
  ratios.silent.push((await rateOf(silent)) / base);
  ratios.heard.push((await rateOf(heard)) / base);
}
const median = (values) => values.sort((a, b) => a - b)[values.length >> 1].toFixed(2);
console.log(`nobody listens: median ratio ${median(ratios.silent)}`);
console.log(`${NAMES.length} listeners (${events} events): median ratio ${median(ratios.heard)}`);
for (const { app } of [mute, silent, heard]) await app.close();
