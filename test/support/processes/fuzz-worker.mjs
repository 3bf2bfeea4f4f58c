// Counts up in Redis by reading, waiting and writing; several of these at once lose counts unless a lock keeps them apart.
import 'reflect-metadata';
import process from 'node:process';
import { setTimeout as sleep } from 'node:timers/promises';
import { Logger, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { Redis } from 'ioredis';
import { RedisLockModule, RedisLockService } from '../../../dist/esm/index.js';

const { connection, url, rounds, counters, locked } = JSON.parse(process.argv[2]);
Logger.overrideLogger(false);

class AppModule {}
Module({ imports: [RedisLockModule.forRoot({ connection })] })(AppModule);

const app = await NestFactory.createApplicationContext(AppModule);
const locks = app.get(RedisLockService);
const redis = new Redis(url);
redis.on('error', () => {});

async function countUp(counter) {
  const count = Number(await redis.get(counter));
  await sleep(Math.random() * 4);
  await redis.set(counter, count + 1);
}

/** One waiter per counter, so that a process both waits and works. */
async function countAll(counter) {
  for (let round = 0; round < rounds; round++) {
    if (locked) await locks.withLock(counter, { waitMs: 120_000 }, () => countUp(counter));
    else await countUp(counter);
  }
}

// All begin together.
await new Promise((resolve) => {
  process.once('message', resolve);
  process.send('ready');
});
await Promise.all(counters.map(countAll));
await app.close();
redis.disconnect();
process.disconnect();
