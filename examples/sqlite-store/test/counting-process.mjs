// An app on the built package, whose locks are in an SQLite file: adds to a number in another file, under a lock. Nothing else
// keeps two processes from writing the same number.
import 'reflect-metadata';
import { readFileSync, writeFileSync } from 'node:fs';
import process from 'node:process';
import { setTimeout as sleep } from 'node:timers/promises';
import { Logger, Module } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { RedisLockModule, RedisLockService } from 'nestjs-redis-lock';

const { store, locksFile, countFile, rounds } = JSON.parse(process.argv[2]);
const { SqliteLockStore } = await import(store);
Logger.overrideLogger(false);

class AppModule {}
Module({ imports: [RedisLockModule.forRoot({ store: (context) => new SqliteLockStore(locksFile, context) })] })(
  AppModule,
);

const app = await NestFactory.createApplicationContext(AppModule);
const locks = app.get(RedisLockService);

for (let round = 0; round < rounds; round += 1) {
  await locks.withLock('count', { waitMs: 60_000 }, async () => {
    const count = Number(readFileSync(countFile, 'utf8'));
    await sleep(1);
    writeFileSync(countFile, `${count + 1}`);
  });
}
await app.close();
