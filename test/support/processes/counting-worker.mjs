// A worker thread that counts up a shared number under a lock, on the built package.
import 'reflect-metadata';
import { setImmediate as turn, setTimeout as sleep } from 'node:timers/promises';
import { workerData } from 'node:worker_threads';
import { Logger, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { RedisLockModule, RedisLockService } from '../../../dist/esm/index.js';

const { options, key, threads, rounds, isLocked, memory } = workerData;
const count = new Int32Array(memory);
Logger.overrideLogger(false);

class AppModule {}
Module({ imports: [RedisLockModule.forRoot(options)] })(AppModule);
const app = await NestFactory.createApplicationContext(AppModule);
const locks = app.get(RedisLockService);

async function countUp() {
  const seen = Atomics.load(count, 0);
  // Longer than a time slice, in which another thread would run to its end.
  await sleep(1);
  Atomics.store(count, 0, seen + 1);
}

// All begin together.
Atomics.add(count, 1, 1);
while (Atomics.load(count, 1) < threads) await turn();
for (let round = 0; round < rounds; round += 1) {
  await (isLocked ? locks.withLock(key, { waitMs: 25_000 }, countUp) : countUp());
}
await app.close();
