/**
 * Measures what events cost. Compares acquire and release of a module without listeners, and of one with a listener on every
 * event, with those of a module whose `emit` does nothing, in alternating slices of one run.
 */
import { NestFactory } from '@nestjs/core';
import { RedisLockModule, RedisLockService } from 'nestjs-redis-lock';
import { median, rateOf, sliceMs } from './rates.mjs';

const SLICES = 15;
const SLICE_MS = sliceMs(500);
const NAMES = ['acquired', 'waiting', 'released', 'renewed', 'renewFailed', 'lost', 'skipped', 'timedOut', 'reentered'];
const connection = process.env.REDIS_URL ?? 'redis://127.0.0.1:6379';

async function open(name) {
  const module = RedisLockModule.forRoot({ connection });
  const app = await NestFactory.createApplicationContext(module, { logger: false });
  const locks = app.get(RedisLockService);
  const pair = async () => (await locks.acquire(`bench:${name}`)).release();
  return { app, locks, pair };
}

const [mute, silent, heard] = [await open('mute'), await open('silent'), await open('heard')];
mute.locks.events.emit = () => undefined;
let events = 0;
for (const name of NAMES) heard.locks.events.on(name, () => (events += 1));
for (const { pair } of [mute, silent, heard]) await rateOf(pair, SLICE_MS);

const ratios = { silent: [], heard: [] };
for (let slice = 0; slice < SLICES; slice += 1) {
  const base = await rateOf(mute.pair, SLICE_MS);
  ratios.silent.push((await rateOf(silent.pair, SLICE_MS)) / base);
  ratios.heard.push((await rateOf(heard.pair, SLICE_MS)) / base);
}
console.log(`nobody listens: median ratio ${median(ratios.silent).toFixed(2)}`);
console.log(`${NAMES.length} listeners (${events} events): median ratio ${median(ratios.heard).toFixed(2)}`);
for (const { app } of [mute, silent, heard]) await app.close();
