// Starts the app that `nest new` made in `app`, after `nest add`, and takes a lock on the Redis of REDIS_URL.
import 'reflect-metadata';
import { existsSync } from 'node:fs';
import process from 'node:process';
import { NestFactory } from '@nestjs/core';
import { RedisLockService } from 'nestjs-redis-lock';

const compiled = ['./app/dist/src/app.module.js', './app/dist/app.module.js'];
const path = compiled.find((one) => existsSync(new URL(one, import.meta.url)));
const { AppModule } = await import(path);
const app = await NestFactory.createApplicationContext(AppModule, { logger: ['warn', 'error', 'fatal'] });
const locks = app.get(RedisLockService);
const checked = [];
await locks.withLock('nest-add', async ({ fencingToken }) => {
  if (!(fencingToken > 0)) throw new Error(`The token is ${fencingToken}.`);
  if (!(await locks.isLocked('nest-add'))) throw new Error('The lock is not held.');
  checked.push('a lock of the app that nest add changed');
});
await app.close();
console.log(JSON.stringify({ node: process.version, checked }));
