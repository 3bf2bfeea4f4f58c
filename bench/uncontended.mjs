/**
 * One caller, free lock. Compares acquire and release with the shortest code by hand on the same client (`SET NX PX` and a Lua
 * compare-and-delete), in alternating slices of one run. Prints the ratio of the rates, slice by slice and as a median.
 */
import { randomUUID } from 'node:crypto';
import { NestFactory } from '@nestjs/core';
import { Redis } from 'ioredis';
import { RedisLockModule, RedisLockService } from 'nestjs-redis-lock';
import { median, rateOf, sliceMs } from './rates.mjs';

const SLICES = 7;
const SLICE_MS = sliceMs(1_000);
const DELETE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";

const redis = new Redis(process.env.REDIS_URL ?? 'redis://127.0.0.1:6379');
const app = await NestFactory.createApplicationContext(RedisLockModule.forRoot({ connection: redis }), {
  logger: false,
});
const locks = app.get(RedisLockService);
const sha = await redis.script('LOAD', DELETE);

async function byHand() {
  const owner = randomUUID();
  await redis.set('bench:by-hand', owner, 'PX', 30_000, 'NX');
  await redis.evalsha(sha, 1, 'bench:by-hand', owner);
}

async function byModule() {
  const lock = await locks.acquire('bench:module');
  await lock.release();
}

await rateOf(byHand, SLICE_MS);
await rateOf(byModule, SLICE_MS);
const ratios = [];
for (let slice = 0; slice < SLICES; slice += 1) {
  const [hand, module] = [await rateOf(byHand, SLICE_MS), await rateOf(byModule, SLICE_MS)];
  ratios.push(module / hand);
  console.log(`by hand ${hand.toFixed(0)}/s, module ${module.toFixed(0)}/s, ratio ${(module / hand).toFixed(2)}`);
}
console.log(`median ratio ${median(ratios).toFixed(2)}`);
await app.close();
await redis.del('bench:by-hand');
redis.disconnect();
